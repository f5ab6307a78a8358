package kernels

// #include "kern.h"
import "C"

import "github.com/goggml/ggml"

// operands are the operands of an op without the absent optional ones; C functions find optional
// ones by index.
type operands []*ggml.Tensor

func (o *operands) add(x ...*ggml.Tensor) { *o = append(*o, x...) }

// addOptional adds an operand and returns its index, or 0 for nil; no optional operand has index 0.
func (o *operands) addOptional(x *ggml.Tensor) C.int32_t {
	if x == nil {
		return 0
	}
	o.add(x)
	return C.int32_t(len(*o) - 1)
}
