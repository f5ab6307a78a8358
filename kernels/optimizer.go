package kernels

// #include "adamw.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	adamWStep  = &ggml.NativeOp{Name: "adamw_step", Func: unsafe.Pointer(C.kern_op_adamw_step)}
	sumSquares = &ggml.NativeOp{
		Name: "sum_squares", Func: unsafe.Pointer(C.kern_op_sum_squares),
		FLOPs: func(_ shape, operands []shape) float64 { return 2 * elements(operands[0]) },
	}
)

// AdamWOperands are the operands of [AdamWStep], contiguous F32.
type AdamWOperands struct {
	Param, Grad, M, V *ggml.Tensor // the parameter, its gradient and its first and second moments, of the same shape
	Settings          *ggml.Tensor // [8]: the learning rate, β₁, β₂, ε, the weight decay, 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ) for the step t = 1, 2, …, and a factor of the gradient
}

// AdamWStep updates the parameter and the moments by AdamW (arXiv 1711.05101), in
// place, sets the gradient to zero, and returns a view of the parameter.
//
// It is [ggml.Context.OptStepAdamW] with clipping and clearing in one pass through
// memory, vectorised. It is an op of the CPU backend, and has no backward.
func AdamWStep(c *ggml.Context, o AdamWOperands) *ggml.Tensor {
	operands := []*ggml.Tensor{o.Param, o.Grad, o.M, o.V, o.Settings}
	return c.BuildOp(adamWStep.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		for i, what := range []string{"the parameter", "the gradient", "M", "V", "settings"} {
			requireF32(b, what, operands[i])
		}
		for i, written := range operands[:4] {
			b.RequireSameShape(written, o.Param)
			b.RequireNoOverlap(written, operands[i+1:]...)
		}
		b.Require(o.Settings.NumElements() == 8, "settings must have 8 elements, there are %d", o.Settings.NumElements())
		return b.NativeInPlace(adamWStep, nil)
	})
}

// SumSquares returns the sum of the squares of all elements of a, [1], which is F32 and
// contiguous: of a gradient, the square of its norm. It does not depend on the number
// of threads. It is an op of the CPU backend, and has no backward.
func SumSquares(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
	return c.Sum(c.BuildOp(sumSquares.Name, []*ggml.Tensor{a}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireF32(b, "a", a)
		return b.Native(sumSquares, nil, ggml.F32, (a.NumElements()+C.KERN_SQUARES-1)/C.KERN_SQUARES)
	}))
}
