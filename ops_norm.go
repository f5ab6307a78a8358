package ggml

// #include "csrc/goggml.h"
import "C"

// Norm normalises each row to mean 0 and variance 1: (a − mean) / √(var + eps).
// a is F32. It has no backward. C: ggml_norm.
func (c *Context) Norm(a *Tensor, eps float32) *Tensor {
	op := c.normed("norm", a, eps)
	return op.done(C.goggml_op_norm(op.arena, a.ptr(), C.float(eps)))
}

// normed begins an op with an epsilon on the rows of an F32 tensor.
func (c *Context) normed(name string, a *Tensor, eps float32) *opCall {
	op := c.begin(name, a)
	op.types("a", a, F32)
	op.require(eps >= 0, "eps is %v; it must not be negative", eps)
	return op
}

// RMSNorm divides each row by its root mean square: a / √(mean(a²) + eps). a
// is F32 with contiguous rows. C: ggml_rms_norm.
func (c *Context) RMSNorm(a *Tensor, eps float32) *Tensor {
	op := c.normed("rms_norm", a, eps)
	op.contiguousRows("a", a)
	return op.done(C.goggml_op_rms_norm(op.arena, a.ptr(), C.float(eps)))
}

// RMSNormBack returns the gradient of [Context.RMSNorm] at x, given the
// gradient of its result. Both are F32 of one shape. It has no backward.
// C: ggml_rms_norm_back.
func (c *Context) RMSNormBack(grad, x *Tensor, eps float32) *Tensor {
	op := c.begin("rms_norm_back", grad, x)
	op.types("grad", grad, F32)
	op.types("x", x, F32)
	op.sameShape(grad, x)
	op.contiguousRows("grad", grad)
	op.contiguousRows("x", x)
	op.require(eps >= 0, "eps is %v; it must not be negative", eps)
	return op.done(C.goggml_op_rms_norm_back(op.arena, grad.ptr(), x.ptr(), C.float(eps)))
}

// L2Norm divides each row by its Euclidean length, at least eps. a is F32. It
// has no backward. C: ggml_l2_norm.
func (c *Context) L2Norm(a *Tensor, eps float32) *Tensor {
	op := c.normed("l2_norm", a, eps)
	return op.done(C.goggml_op_l2_norm(op.arena, a.ptr(), C.float(eps)))
}

// GroupNorm normalises groups of channels (dimension 2) to mean 0 and variance
// 1. a is contiguous F32. It has no backward. C: ggml_group_norm.
func (c *Context) GroupNorm(a *Tensor, groups int, eps float32) *Tensor {
	op := c.groupNorm("group_norm", a, groups, eps)
	return op.done(C.goggml_op_group_norm(op.arena, a.ptr(), C.int(groups), C.float(eps)))
}

func (c *Context) groupNorm(name string, a *Tensor, groups int, eps float32) *opCall {
	op := c.normed(name, a, eps)
	op.contiguousRows("a", a)
	if op.arena != nil {
		op.require(groups >= 1 && int64(groups) <= a.ne[2], "there are %d groups; they must be 1 to ne2, which is %d", groups, a.ne[2])
	}
	return op
}
