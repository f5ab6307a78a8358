package kernels

// #include "kern.h"
import "C"

import "github.com/goggml/ggml"

// operands are the operands of an op, some of which may be absent: a C function finds these by
// their indices.
type operands []*ggml.Tensor

func (o *operands) add(x ...*ggml.Tensor) { *o = append(*o, x...) }

// addOptional returns the index of the operand; 0 for nil, which is the index of none of these.
func (o *operands) addOptional(x *ggml.Tensor) C.int32_t {
	if x == nil {
		return 0
	}
	o.add(x)
	return C.int32_t(len(*o) - 1)
}
