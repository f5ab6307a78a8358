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
	gateStep = &ggml.NativeOp{Name: "gate_step", Func: unsafe.Pointer(C.kern_op_gate_step)}
)

// AdamWOperands are the operands of [AdamWStep], contiguous F32.
type AdamWOperands struct {
	Param, Grad, M, V *ggml.Tensor // the parameter, its gradient and its first and second moments, of the same shape
	// Settings [8] are the learning rate, β₁, β₂, ε, the weight decay, 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ)
	// for the step t = 1, 2, …, and a factor of the gradient. A skipped step has learning rate 0
	// and β 1, which change nothing even if the gradient is NaN.
	Settings *ggml.Tensor
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

// SumSquares returns the sum of the squares of all elements of a, [1]: for a gradient, the square
// of its norm. a is F32 and contiguous. The result does not depend on the number of threads. It is
// an op of the CPU backend, and has no backward.
func SumSquares(c *ggml.Context, a *ggml.Tensor) *ggml.Tensor {
	return c.Sum(c.BuildOp(sumSquares.Name, []*ggml.Tensor{a}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireF32(b, "a", a)
		return b.Native(sumSquares, nil, ggml.F32, (a.NumElements()+C.KERN_SQUARES-1)/C.KERN_SQUARES)
	}))
}

// GateOperands are the operands of [GateStep], contiguous F32.
type GateOperands struct {
	Squares  *ggml.Tensor // [1], the square of the norm of all gradients
	Losses   *ggml.Tensor // [n], losses of tokens
	Weights  *ggml.Tensor // [n], weights of the losses; a loss with weight 0 is ignored
	Settings *ggml.Tensor // [8, groups + 1]: the settings of [AdamWStep] for each group, and for a skipped step
	Clip     float64      // maximum norm; 0 means no limit
}

// GateStep decides whether the optimiser makes a step: only if the norm and all losses with a
// weight are finite. It returns [8, groups + 1]: the settings of each group, or of a skipped step;
// the last column is the square of the norm, 1 or 0 for a step made or skipped, and six zeros. If
// the norm exceeds Clip, the last setting of each group, the factor of the gradient, is lowered. It
// is an op of the CPU backend, and has no backward.
func GateStep(c *ggml.Context, o GateOperands) *ggml.Tensor {
	operands := []*ggml.Tensor{o.Squares, o.Losses, o.Weights, o.Settings}
	return c.BuildOp(gateStep.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		for i, what := range []string{"the squares", "losses", "weights", "settings"} {
			requireF32(b, what, operands[i])
		}
		b.Require(o.Squares.NumElements() == 1, "the squares must have 1 element, there are %d", o.Squares.NumElements())
		b.RequireSameShape(o.Losses, o.Weights)
		b.Require(o.Settings.Dim(0) == 8 && o.Settings.Dim(1) > 1 && o.Settings.NumDims() == 2, "settings must be [8, groups + 1], they are %v", o.Settings.Shape())
		return b.Native(gateStep, params(C.struct_kern_gate{clip: C.double(o.Clip)}), ggml.F32, 8, o.Settings.Dim(1))
	})
}
