package kernels

// #include "kern.h"
import "C"

import "github.com/goggml/ggml"

// operands are those of an op, some of which may be left out: a C function finds these by their
// numbers.
type operands []*ggml.Tensor

func (o *operands) add(x ...*ggml.Tensor) { *o = append(*o, x...) }

// addOptional returns the number of the operand; 0, which is none of these, for nil.
func (o *operands) addOptional(x *ggml.Tensor) C.int32_t {
	if x == nil {
		return 0
	}
	o.add(x)
	return C.int32_t(len(*o) - 1)
}
