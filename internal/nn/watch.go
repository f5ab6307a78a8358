package nn

import "github.com/goggml/ggml"

// Watch is x. The computation calls passed once it has x, and back once it has the gradient of x, and waits for them: so
// that others know where it is.
func (t *Tape) Watch(x *Value, passed, back func()) *Value {
	t.Graph.Expand(t.notice(x.T, passed))
	y := &Value{T: x.T, needsGrad: x.needsGrad}
	t.record(y, func(dy *ggml.Tensor) {
		t.Graph.Expand(t.notice(dy, back))
		t.flow(x, func() *ggml.Tensor { return dy })
	})
	return y
}

// notice is a node that calls f. It is of the CPU, and sees one element of x, as all of it would come there from a device.
func (t *Tape) notice(x *ggml.Tensor, f func()) *ggml.Tensor {
	call := func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error {
		f()
		return nil
	}
	return t.C.Custom(ggml.CustomOptions{Func: call, Threads: 1, Type: ggml.F32, Shape: []int64{1}}, t.C.View(x, []int64{1}, nil, 0))
}
