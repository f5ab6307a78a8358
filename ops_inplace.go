package ggml

// #include "csrc/goggml.h"
import "C"

// The ops of this file change their first operand a and return a view of it: the result needs no
// memory. Types and layouts are as for the op without InPlace. They have no backward:
// [Graph.Backward] refuses them. Ops that read the old values of a must be added to the graph
// before. No two elements of a may share memory, as elements of a view can.

func (c *Context) unaryInPlace(name string, a *Tensor, u C.enum_ggml_unary_op) *Tensor {
	op := c.elementwise(name, a)
	op.writable("a", a)
	return op.done(C.goggml_op_unary_inplace(op.arena, a.ptr(), u))
}

// AbsInPlace is [Context.Abs], in place. C: ggml_abs_inplace.
func (c *Context) AbsInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("abs_inplace", a, C.GGML_UNARY_OP_ABS)
}

// SgnInPlace is [Context.Sgn], in place. C: ggml_sgn_inplace.
func (c *Context) SgnInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("sgn_inplace", a, C.GGML_UNARY_OP_SGN)
}

// NegInPlace is [Context.Neg], in place. C: ggml_neg_inplace.
func (c *Context) NegInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("neg_inplace", a, C.GGML_UNARY_OP_NEG)
}

// StepInPlace is [Context.Step], in place. C: ggml_step_inplace.
func (c *Context) StepInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("step_inplace", a, C.GGML_UNARY_OP_STEP)
}

// TanhInPlace is [Context.Tanh], in place. C: ggml_tanh_inplace.
func (c *Context) TanhInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("tanh_inplace", a, C.GGML_UNARY_OP_TANH)
}

// EluInPlace is [Context.Elu], in place. C: ggml_elu_inplace.
func (c *Context) EluInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("elu_inplace", a, C.GGML_UNARY_OP_ELU)
}

// ReluInPlace is [Context.Relu], in place. C: ggml_relu_inplace.
func (c *Context) ReluInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("relu_inplace", a, C.GGML_UNARY_OP_RELU)
}

// SigmoidInPlace is [Context.Sigmoid], in place. C: ggml_sigmoid_inplace.
func (c *Context) SigmoidInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("sigmoid_inplace", a, C.GGML_UNARY_OP_SIGMOID)
}

// GeluInPlace is [Context.Gelu], in place. C: ggml_gelu_inplace.
func (c *Context) GeluInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("gelu_inplace", a, C.GGML_UNARY_OP_GELU)
}

// GeluQuickInPlace is [Context.GeluQuick], in place. C: ggml_gelu_quick_inplace.
func (c *Context) GeluQuickInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("gelu_quick_inplace", a, C.GGML_UNARY_OP_GELU_QUICK)
}

// GeluErfInPlace is [Context.GeluErf], in place. C: ggml_gelu_erf_inplace.
func (c *Context) GeluErfInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("gelu_erf_inplace", a, C.GGML_UNARY_OP_GELU_ERF)
}

// SiluInPlace is [Context.Silu], in place. C: ggml_silu_inplace.
func (c *Context) SiluInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("silu_inplace", a, C.GGML_UNARY_OP_SILU)
}

// ExpInPlace is [Context.Exp], in place. C: ggml_exp_inplace.
func (c *Context) ExpInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("exp_inplace", a, C.GGML_UNARY_OP_EXP)
}

// Expm1InPlace is [Context.Expm1], in place. C: ggml_expm1_inplace.
func (c *Context) Expm1InPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("expm1_inplace", a, C.GGML_UNARY_OP_EXPM1)
}

// SoftplusInPlace is [Context.Softplus], in place. C: ggml_softplus_inplace.
func (c *Context) SoftplusInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("softplus_inplace", a, C.GGML_UNARY_OP_SOFTPLUS)
}

// FloorInPlace is [Context.Floor], in place. C: ggml_floor_inplace.
func (c *Context) FloorInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("floor_inplace", a, C.GGML_UNARY_OP_FLOOR)
}

// CeilInPlace is [Context.Ceil], in place. C: ggml_ceil_inplace.
func (c *Context) CeilInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("ceil_inplace", a, C.GGML_UNARY_OP_CEIL)
}

// RoundInPlace is [Context.Round], in place. C: ggml_round_inplace.
func (c *Context) RoundInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("round_inplace", a, C.GGML_UNARY_OP_ROUND)
}

// TruncInPlace is [Context.Trunc], in place. C: ggml_trunc_inplace.
func (c *Context) TruncInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("trunc_inplace", a, C.GGML_UNARY_OP_TRUNC)
}

// HardSwishInPlace is [Context.HardSwish], in place. C: ggml_unary_inplace.
func (c *Context) HardSwishInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("hardswish_inplace", a, C.GGML_UNARY_OP_HARDSWISH)
}

// HardSigmoidInPlace is [Context.HardSigmoid], in place.
// C: ggml_unary_inplace.
func (c *Context) HardSigmoidInPlace(a *Tensor) *Tensor {
	return c.unaryInPlace("hardsigmoid_inplace", a, C.GGML_UNARY_OP_HARDSIGMOID)
}

// LeakyReluInPlace is [Context.LeakyRelu], in place. C: ggml_leaky_relu.
func (c *Context) LeakyReluInPlace(a *Tensor, slope float32) *Tensor {
	return c.leakyRelu(a, slope, true)
}

// DupInPlace returns a view of a, made by an op that does not change the values. a is as for
// [Context.Dup]. C: ggml_dup_inplace.
func (c *Context) DupInPlace(a *Tensor) *Tensor {
	op := c.begin("dup_inplace", a)
	op.copyable(a)
	return op.done(C.goggml_op_dup_inplace(op.arena, a.ptr()))
}

// SubInPlace is [Context.Sub], in place: b is repeated to the shape of a.
// C: ggml_sub_inplace.
func (c *Context) SubInPlace(a, b *Tensor) *Tensor {
	op := c.binary("sub_inplace", a, b)
	op.writable("a", a)
	return op.done(C.goggml_op_sub_inplace(op.arena, a.ptr(), b.ptr()))
}

// MulInPlace is [Context.Mul], in place: b is repeated to the shape of a.
// C: ggml_mul_inplace.
func (c *Context) MulInPlace(a, b *Tensor) *Tensor {
	op := c.binary("mul_inplace", a, b)
	op.writable("a", a)
	return op.done(C.goggml_op_mul_inplace(op.arena, a.ptr(), b.ptr()))
}

// DivInPlace is [Context.Div], in place: b is repeated to the shape of a.
// C: ggml_div_inplace.
func (c *Context) DivInPlace(a, b *Tensor) *Tensor {
	op := c.binary("div_inplace", a, b)
	op.writable("a", a)
	return op.done(C.goggml_op_div_inplace(op.arena, a.ptr(), b.ptr()))
}

// SqrInPlace is [Context.Sqr], in place. C: ggml_sqr_inplace.
func (c *Context) SqrInPlace(a *Tensor) *Tensor {
	op := c.elementwise("sqr_inplace", a)
	op.writable("a", a)
	return op.done(C.goggml_op_sqr_inplace(op.arena, a.ptr()))
}

// SqrtInPlace is [Context.Sqrt], in place. C: ggml_sqrt_inplace.
func (c *Context) SqrtInPlace(a *Tensor) *Tensor {
	op := c.elementwise("sqrt_inplace", a)
	op.writable("a", a)
	return op.done(C.goggml_op_sqrt_inplace(op.arena, a.ptr()))
}

// LogInPlace is [Context.Log], in place. C: ggml_log_inplace.
func (c *Context) LogInPlace(a *Tensor) *Tensor {
	op := c.elementwise("log_inplace", a)
	op.writable("a", a)
	return op.done(C.goggml_op_log_inplace(op.arena, a.ptr()))
}

// SinInPlace is [Context.Sin], in place. C: ggml_sin_inplace.
func (c *Context) SinInPlace(a *Tensor) *Tensor {
	op := c.elementwise("sin_inplace", a)
	op.writable("a", a)
	return op.done(C.goggml_op_sin_inplace(op.arena, a.ptr()))
}

// CosInPlace is [Context.Cos], in place. C: ggml_cos_inplace.
func (c *Context) CosInPlace(a *Tensor) *Tensor {
	op := c.elementwise("cos_inplace", a)
	op.writable("a", a)
	return op.done(C.goggml_op_cos_inplace(op.arena, a.ptr()))
}

// ScaleInPlace is [Context.Scale], in place. C: ggml_scale_inplace.
func (c *Context) ScaleInPlace(a *Tensor, s float32) *Tensor {
	op := c.scale("scale_inplace", a)
	return op.done(C.goggml_op_scale_inplace(op.arena, a.ptr(), C.float(s)))
}

// ScaleBiasInPlace is [Context.ScaleBias], in place.
// C: ggml_scale_bias_inplace.
func (c *Context) ScaleBiasInPlace(a *Tensor, s, b float32) *Tensor {
	op := c.scale("scale_bias_inplace", a)
	return op.done(C.goggml_op_scale_bias_inplace(op.arena, a.ptr(), C.float(s), C.float(b)))
}

// ClampInPlace is [Context.Clamp], in place. C: ggml_clamp_inplace.
func (c *Context) ClampInPlace(a *Tensor, low, high float32) *Tensor {
	op := c.clamp("clamp_inplace", a, low, high)
	op.writable("a", a)
	return op.done(C.goggml_op_clamp_inplace(op.arena, a.ptr(), C.float(low), C.float(high)))
}

// FillInPlace is [Context.Fill], in place. C: ggml_fill_inplace.
func (c *Context) FillInPlace(a *Tensor, value float32) *Tensor {
	op := c.fill("fill_inplace", a)
	return op.done(C.goggml_op_fill_inplace(op.arena, a.ptr(), C.float(value)))
}

// AccInPlace is [Context.Acc], in place. C: ggml_acc_inplace.
func (c *Context) AccInPlace(a, b *Tensor, strides [3]int64, offset int64) *Tensor {
	op := c.part("acc_inplace", a, b, &strides, offset, F32)
	return op.done(C.goggml_op_acc_inplace(op.arena, a.ptr(), b.ptr(), C.size_t(strides[0]), C.size_t(strides[1]), C.size_t(strides[2]), C.size_t(offset)))
}

// SetInPlace is [Context.Set], in place.
// C: ggml_set_inplace, ggml_set_1d_inplace, ggml_set_2d_inplace.
func (c *Context) SetInPlace(a, b *Tensor, strides [3]int64, offset int64) *Tensor {
	op := c.part("set_inplace", a, b, &strides, offset, F32, I32)
	return op.done(C.goggml_op_set_inplace(op.arena, a.ptr(), b.ptr(), C.size_t(strides[0]), C.size_t(strides[1]), C.size_t(strides[2]), C.size_t(offset)))
}

// NormInPlace is [Context.Norm], in place. C: ggml_norm_inplace.
func (c *Context) NormInPlace(a *Tensor, eps float32) *Tensor {
	op := c.normed("norm_inplace", a, eps)
	op.writable("a", a)
	return op.done(C.goggml_op_norm_inplace(op.arena, a.ptr(), C.float(eps)))
}

// RMSNormInPlace is [Context.RMSNorm], in place. C: ggml_rms_norm_inplace.
func (c *Context) RMSNormInPlace(a *Tensor, eps float32) *Tensor {
	op := c.normed("rms_norm_inplace", a, eps)
	op.contiguousRows("a", a)
	op.writable("a", a)
	return op.done(C.goggml_op_rms_norm_inplace(op.arena, a.ptr(), C.float(eps)))
}

// L2NormInPlace is [Context.L2Norm], in place. C: ggml_l2_norm_inplace.
func (c *Context) L2NormInPlace(a *Tensor, eps float32) *Tensor {
	op := c.normed("l2_norm_inplace", a, eps)
	op.writable("a", a)
	return op.done(C.goggml_op_l2_norm_inplace(op.arena, a.ptr(), C.float(eps)))
}

// GroupNormInPlace is [Context.GroupNorm], in place.
// C: ggml_group_norm_inplace.
func (c *Context) GroupNormInPlace(a *Tensor, groups int, eps float32) *Tensor {
	op := c.groupNorm("group_norm_inplace", a, groups, eps)
	return op.done(C.goggml_op_group_norm_inplace(op.arena, a.ptr(), C.int(groups), C.float(eps)))
}

// SoftMaxInPlace is [Context.SoftMax], in place. C: ggml_soft_max_inplace.
func (c *Context) SoftMaxInPlace(a *Tensor) *Tensor {
	return c.SoftMaxExtInPlace(a, SoftMaxOptions{})
}

// SoftMaxExtInPlace is [Context.SoftMaxExt], in place.
// C: ggml_soft_max_ext_inplace.
func (c *Context) SoftMaxExtInPlace(a *Tensor, o SoftMaxOptions) *Tensor {
	return c.softMax("soft_max_ext_inplace", a, o, true)
}

// SoftMaxBackInPlace is [Context.SoftMaxBack]; it changes grad.
// C: ggml_soft_max_ext_back_inplace.
func (c *Context) SoftMaxBackInPlace(grad, y *Tensor, scale float32) *Tensor {
	op := c.softMaxBack("soft_max_ext_back_inplace", grad, y)
	return op.done(C.goggml_op_soft_max_ext_back_inplace(op.arena, grad.ptr(), y.ptr(), C.float(scale), 0))
}
