package kernels

// #include "kern.h"
import "C"

import (
	"slices"

	"github.com/goggml/ggml"
)

// operands are the operands of an op without the absent optional ones; C functions find optional
// ones by index.
type operands []*ggml.Tensor

func (o *operands) add(x ...*ggml.Tensor) { *o = append(*o, x...) }

// addOptional adds those operands that are present, and returns the index of the first, or 0 if it is nil; no optional
// operand has index 0.
func (o *operands) addOptional(x ...*ggml.Tensor) (index C.int32_t) {
	if x[0] != nil {
		index = C.int32_t(len(*o))
	}
	o.add(slices.DeleteFunc(x, func(x *ggml.Tensor) bool { return x == nil })...)
	return index
}
