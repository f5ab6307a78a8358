package ggml

// #include "csrc/goggml.h"
import "C"

// CrossEntropyLoss returns the mean over rows of −Σ labels · log softmax(logits),
// [1]. labels are probabilities of the shape of logits. Both are contiguous
// F32. C: ggml_cross_entropy_loss.
func (c *Context) CrossEntropyLoss(logits, labels *Tensor) *Tensor {
	op := c.begin("cross_entropy_loss", logits, labels)
	op.crossEntropy(logits, labels)
	return op.done(C.goggml_op_cross_entropy_loss(op.arena, logits.ptr(), labels.ptr()))
}

func (op *opCall) crossEntropy(logits, labels *Tensor) {
	op.types("logits", logits, F32)
	op.types("labels", labels, F32)
	op.sameShape(logits, labels)
	op.fresh("logits", logits)
	op.fresh("labels", labels)
}

// CrossEntropyLossBack returns the gradient of the logits in
// [Context.CrossEntropyLoss], given the gradient [1] of its result. It has no
// backward. C: ggml_cross_entropy_loss_back.
func (c *Context) CrossEntropyLossBack(grad, logits, labels *Tensor) *Tensor {
	op := c.begin("cross_entropy_loss_back", grad, logits, labels)
	op.types("grad", grad, F32)
	op.crossEntropy(logits, labels)
	if op.arena != nil {
		op.require(grad.NumElements() == 1, "grad must be a single number")
	}
	return op.done(C.goggml_op_cross_entropy_loss_back(op.arena, grad.ptr(), logits.ptr(), labels.ptr()))
}

// OptStepAdamW updates the parameter a in place by AdamW (arXiv 1711.05101)
// and returns a view of it. grad, m and v have a's shape; m and v are the
// moments, updated too. params holds [7]: the learning rate, β₁, β₂, ε, the
// weight decay, 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ) for the step t = 1, 2, …
//
// a is marked by [Tensor.SetParam]; all are contiguous F32. It has no
// backward. C: ggml_opt_step_adamw.
func (c *Context) OptStepAdamW(a, grad, m, v, params *Tensor) *Tensor {
	op := c.begin("opt_step_adamw", a, grad, m, v, params)
	op.adamW(a, grad, m, v, params, 7)
	return op.done(C.goggml_op_opt_step_adamw(op.arena, a.ptr(), grad.ptr(), m.ptr(), v.ptr(), params.ptr()))
}

// AdamWInPlace is [Context.OptStepAdamW] of grad times an eighth element of
// params [8], which then sets grad to zero: all that a step does, in one pass
// through memory and with the processor's vector instructions. It is an op of the
// CPU backend, and has no backward.
func (c *Context) AdamWInPlace(a, grad, m, v, params *Tensor) *Tensor {
	op := c.begin("adamw", a, grad, m, v, params)
	op.adamW(a, grad, m, v, params, 8)
	op.dense("params", params)
	read := []*Tensor{grad, m, v, params}
	for i, written := range []*Tensor{a, grad, m, v} {
		op.apart(written, read[i:]...)
	}
	return op.done(C.goggml_op_adamw(op.arena, a.ptr(), grad.ptr(), m.ptr(), v.ptr(), params.ptr()))
}

func (op *opCall) adamW(a, grad, m, v, params *Tensor, count int64) {
	op.optimizes(a, grad)
	op.sameShape(a, m)
	op.sameShape(a, v)
	op.types("m", m, F32)
	op.types("v", v, F32)
	op.dense("m", m)
	op.dense("v", v)
	op.types("params", params, F32)
	if op.arena != nil {
		op.require(params.NumElements() == count, "params must have %d elements", count)
	}
}

// SumSquares returns the sum of the squares of all elements of a, [1], which is
// F32 and contiguous: of a gradient, the square of its norm. It does not depend on
// the number of threads. It is an op of the CPU backend, and has no backward.
func (c *Context) SumSquares(a *Tensor) *Tensor {
	op := c.begin("sum_squares", a)
	op.types("a", a, F32)
	op.dense("a", a)
	return c.Sum(op.done(C.goggml_op_square_sums(op.arena, a.ptr())))
}

func (op *opCall) optimizes(a, grad *Tensor) {
	op.types("a", a, F32)
	op.types("grad", grad, F32)
	op.dense("a", a)
	op.dense("grad", grad)
	op.sameShape(a, grad)
	if op.arena != nil {
		op.require(a.t.flags&C.GGML_TENSOR_FLAG_PARAM != 0, "a must be marked as a parameter; call SetParam")
	}
}

// OptStepSGD updates the parameter a in place: a ← a · (1 − α·decay) − α·grad,
// and returns a view of it. params holds [2]: the learning rate α and the
// weight decay. a is marked by [Tensor.SetParam]; all are contiguous F32. It
// has no backward. C: ggml_opt_step_sgd.
func (c *Context) OptStepSGD(a, grad, params *Tensor) *Tensor {
	op := c.begin("opt_step_sgd", a, grad, params)
	op.optimizes(a, grad)
	op.types("params", params, F32)
	if op.arena != nil {
		op.require(params.NumElements() == 2, "params must have 2 elements")
	}
	return op.done(C.goggml_op_opt_step_sgd(op.arena, a.ptr(), grad.ptr(), params.ptr()))
}
