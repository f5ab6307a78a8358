package nn

import (
	"slices"

	"github.com/goggml/ggml"
)

// Op makes a value from a tensor y that is built from others, for ops that no layer of this package
// covers. back returns the gradient of each of them, given the gradient of y.
func (t *Tape) Op(y *ggml.Tensor, back func(dy *ggml.Tensor) []*ggml.Tensor, of ...*Value) *Value {
	v := &Value{T: y, needsGrad: slices.ContainsFunc(of, func(x *Value) bool { return x.needsGrad })}
	t.record(v, func(dy *ggml.Tensor) {
		for i, dx := range back(dy) {
			t.flow(of[i], func() *ggml.Tensor { return dx })
		}
	})
	return v
}
