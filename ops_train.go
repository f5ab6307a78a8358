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
	op.canonicalStrides("logits", logits)
	op.canonicalStrides("labels", labels)
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

// AdamWOperands are the operands of [Context.OptStepAdamW], contiguous F32.
type AdamWOperands struct {
	Param    *Tensor // marked by [Tensor.SetParam]
	Grad     *Tensor // its gradient, of the same shape
	M, V     *Tensor // its moments, of the same shape; initially zero
	Settings *Tensor // [7]: the learning rate, β₁, β₂, ε, the weight decay, 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ) for the step t = 1, 2, …
}

// OptStepAdamW updates Param, M and V in place by AdamW (arXiv 1711.05101) and returns a view of
// Param. It has no backward. C: ggml_opt_step_adamw.
func (c *Context) OptStepAdamW(o AdamWOperands) *Tensor {
	op := c.begin("opt_step_adamw", o.Param, o.Grad, o.M, o.V, o.Settings)
	op.optimizes(o.Param, o.Grad)
	op.sameShape(o.Param, o.M)
	op.sameShape(o.Param, o.V)
	op.types("m", o.M, F32)
	op.types("v", o.V, F32)
	op.contiguous("m", o.M)
	op.contiguous("v", o.V)
	op.types("settings", o.Settings, F32)
	if op.arena != nil {
		op.require(o.Settings.NumElements() == 7, "settings must have 7 elements")
	}
	return op.done(C.goggml_op_opt_step_adamw(op.arena, o.Param.ptr(), o.Grad.ptr(), o.M.ptr(), o.V.ptr(), o.Settings.ptr()))
}

func (op *opCall) optimizes(a, grad *Tensor) {
	op.types("a", a, F32)
	op.types("grad", grad, F32)
	op.contiguous("a", a)
	op.contiguous("grad", grad)
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
