package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"math"
	"strings"
)

func (c *Context) unary(name string, a *Tensor, u C.enum_ggml_unary_op) *Tensor {
	op := c.elementwise(name, a)
	return op.done(C.goggml_op_unary(op.arena, a.ptr(), u))
}

// Abs returns |a|. C: ggml_abs.
func (c *Context) Abs(a *Tensor) *Tensor {
	return c.unary("abs", a, C.GGML_UNARY_OP_ABS)
}

// Sgn returns the sign of a: −1, 0 or 1. It stops gradients. C: ggml_sgn.
func (c *Context) Sgn(a *Tensor) *Tensor {
	return c.unary("sgn", a, C.GGML_UNARY_OP_SGN)
}

// Neg returns −a. C: ggml_neg.
func (c *Context) Neg(a *Tensor) *Tensor {
	return c.unary("neg", a, C.GGML_UNARY_OP_NEG)
}

// Step returns 1 where a > 0, else 0. It stops gradients. C: ggml_step.
func (c *Context) Step(a *Tensor) *Tensor {
	return c.unary("step", a, C.GGML_UNARY_OP_STEP)
}

// Tanh returns the hyperbolic tangent of a. It has no backward. C: ggml_tanh.
func (c *Context) Tanh(a *Tensor) *Tensor {
	return c.unary("tanh", a, C.GGML_UNARY_OP_TANH)
}

// Elu returns a where a > 0, else eᵃ − 1. It has no backward. C: ggml_elu.
func (c *Context) Elu(a *Tensor) *Tensor {
	return c.unary("elu", a, C.GGML_UNARY_OP_ELU)
}

// Relu returns max(a, 0). C: ggml_relu.
func (c *Context) Relu(a *Tensor) *Tensor {
	return c.unary("relu", a, C.GGML_UNARY_OP_RELU)
}

// Sigmoid returns 1 / (1 + e⁻ᵃ). It has no backward. C: ggml_sigmoid.
func (c *Context) Sigmoid(a *Tensor) *Tensor {
	return c.unary("sigmoid", a, C.GGML_UNARY_OP_SIGMOID)
}

// Gelu returns a · Φ(a) in the tanh approximation, by a table of half precision.
// It has no backward. C: ggml_gelu.
func (c *Context) Gelu(a *Tensor) *Tensor {
	return c.unary("gelu", a, C.GGML_UNARY_OP_GELU)
}

// GeluQuick returns a · sigmoid(1.702 a), by a table of half precision. It has no
// backward. C: ggml_gelu_quick.
func (c *Context) GeluQuick(a *Tensor) *Tensor {
	return c.unary("gelu_quick", a, C.GGML_UNARY_OP_GELU_QUICK)
}

// GeluErf returns a · Φ(a), exact. It has no backward. C: ggml_gelu_erf.
func (c *Context) GeluErf(a *Tensor) *Tensor {
	return c.unary("gelu_erf", a, C.GGML_UNARY_OP_GELU_ERF)
}

// Silu returns a · sigmoid(a). C: ggml_silu.
func (c *Context) Silu(a *Tensor) *Tensor {
	return c.unary("silu", a, C.GGML_UNARY_OP_SILU)
}

// HardSwish returns a · min(1, max(0, (a + 3) / 6)). It has no backward. C: ggml_hardswish.
func (c *Context) HardSwish(a *Tensor) *Tensor {
	return c.unary("hardswish", a, C.GGML_UNARY_OP_HARDSWISH)
}

// HardSigmoid returns min(1, max(0, (a + 3) / 6)). It has no backward. C: ggml_hardsigmoid.
func (c *Context) HardSigmoid(a *Tensor) *Tensor {
	return c.unary("hardsigmoid", a, C.GGML_UNARY_OP_HARDSIGMOID)
}

// Exp returns eᵃ. C: ggml_exp.
func (c *Context) Exp(a *Tensor) *Tensor {
	return c.unary("exp", a, C.GGML_UNARY_OP_EXP)
}

// Expm1 returns eᵃ − 1. C: ggml_expm1.
func (c *Context) Expm1(a *Tensor) *Tensor {
	return c.unary("expm1", a, C.GGML_UNARY_OP_EXPM1)
}

// Softplus returns ln(1 + eᵃ). C: ggml_softplus.
func (c *Context) Softplus(a *Tensor) *Tensor {
	return c.unary("softplus", a, C.GGML_UNARY_OP_SOFTPLUS)
}

// Floor returns the largest integer not above a. It has no backward. C: ggml_floor.
func (c *Context) Floor(a *Tensor) *Tensor {
	return c.unary("floor", a, C.GGML_UNARY_OP_FLOOR)
}

// Ceil returns the smallest integer not below a. It has no backward. C: ggml_ceil.
func (c *Context) Ceil(a *Tensor) *Tensor {
	return c.unary("ceil", a, C.GGML_UNARY_OP_CEIL)
}

// Round returns a rounded to the nearest integer, halves away from zero. It has no backward. C: ggml_round.
func (c *Context) Round(a *Tensor) *Tensor {
	return c.unary("round", a, C.GGML_UNARY_OP_ROUND)
}

// Trunc returns a rounded towards zero. It has no backward. C: ggml_trunc.
func (c *Context) Trunc(a *Tensor) *Tensor {
	return c.unary("trunc", a, C.GGML_UNARY_OP_TRUNC)
}

// LeakyRelu returns a where a > 0, else slope · a. a is contiguous F32 or F16.
// It has no backward. C: ggml_leaky_relu.
func (c *Context) LeakyRelu(a *Tensor, slope float32) *Tensor {
	return c.leakyRelu(a, slope, false)
}

func (c *Context) leakyRelu(a *Tensor, slope float32, inPlace bool) *Tensor {
	op := c.begin("leaky_relu", a)
	op.types("a", a, F32, F16)
	op.canonicalStrides("a", a)
	return op.done(C.goggml_op_leaky_relu(op.arena, a.ptr(), C.float(slope), C.bool(inPlace)))
}

// SiluBack returns the gradient of [Context.Silu] at x, given the gradient of
// its result. Both are contiguous F32 or F16 of one shape. It has no backward.
// C: ggml_silu_back.
func (c *Context) SiluBack(grad, x *Tensor) *Tensor {
	op := c.begin("silu_back", grad, x)
	op.types("grad", grad, F32, F16)
	op.types("x", x, F32, F16)
	op.sameShape(grad, x)
	op.canonicalStrides("grad", grad)
	op.canonicalStrides("x", x)
	if op.arena != nil {
		op.require(grad.typ == x.typ, "the types must be equal")
	}
	return op.done(C.goggml_op_silu_back(op.arena, grad.ptr(), x.ptr()))
}

// A GLU is a gated linear unit: the activation of one half of a row times the other half. C: enum
// ggml_glu_op.
type GLU int

// The gated linear units.
const (
	// C: ggml_reglu, ggml_reglu_swapped, ggml_reglu_split.
	ReGLU GLU = C.GGML_GLU_OP_REGLU // relu
	// C: ggml_geglu, ggml_geglu_swapped, ggml_geglu_split.
	GeGLU GLU = C.GGML_GLU_OP_GEGLU // gelu, tanh approximation
	// C: ggml_swiglu, ggml_swiglu_swapped, ggml_swiglu_split.
	SwiGLU GLU = C.GGML_GLU_OP_SWIGLU // silu
	// C: ggml_geglu_erf, ggml_geglu_erf_swapped, ggml_geglu_erf_split.
	GeGLUErf GLU = C.GGML_GLU_OP_GEGLU_ERF // gelu, exact
	// C: ggml_geglu_quick, ggml_geglu_quick_swapped, ggml_geglu_quick_split.
	GeGLUQuick GLU = C.GGML_GLU_OP_GEGLU_QUICK // gelu, sigmoid approximation

	// These have parameters: use Context.SwiGLUOAI and Context.SwiGLUClamp.
	SwiGLUOAI   GLU = C.GGML_GLU_OP_SWIGLU_OAI
	SwiGLUClamp GLU = C.GGML_GLU_OP_SWIGLU_CLAMP
)

// String returns the name of the unit, for example "geglu_quick". C: ggml_glu_op_name.
func (g GLU) String() string {
	if g < 0 || g >= C.GGML_GLU_OP_COUNT {
		return fmt.Sprintf("GLU(%d)", int(g))
	}
	return strings.ToLower(C.GoString(C.ggml_glu_op_name(C.enum_ggml_glu_op(g))))
}

// kind requires a gated linear unit without parameters.
func (op *opCall) kind(g GLU) {
	switch g {
	case ReGLU, GeGLU, SwiGLU, GeGLUErf, GeGLUQuick:
	case SwiGLUOAI, SwiGLUClamp:
		op.require(false, "%v has parameters; use SwiGLUOAI or SwiGLUClamp", g.String())
	default:
		op.require(false, "there is no gated linear unit %d", int(g))
	}
}

// GLU splits each row of a [2n, …] into halves and returns
// activation(first) · second, [n, …]; swapped exchanges the halves. a is F32,
// F16 or BF16. It has no backward: use GLUSplit. C: ggml_glu.
func (c *Context) GLU(kind GLU, a *Tensor, swapped bool) *Tensor {
	op := c.begin("glu", a)
	op.types("a", a, F32, F16, BF16)
	op.uniformRowStride("a", a)
	op.kind(kind)
	if op.arena != nil {
		op.require(a.ne[0]%2 == 0, "ne0 is %d; it must be even", a.ne[0])
	}
	return op.done(C.goggml_op_glu(op.arena, a.ptr(), C.enum_ggml_glu_op(kind), C.bool(swapped)))
}

// GLUSplit returns activation(a) · b; both have one shape and one type, F32,
// F16 or BF16. Only SwiGLU has a backward. C: ggml_glu_split.
func (c *Context) GLUSplit(kind GLU, a, b *Tensor) *Tensor {
	op := c.begin("glu_split", a, b)
	op.types("a", a, F32, F16, BF16)
	op.types("b", b, F32, F16, BF16)
	op.sameShape(a, b)
	op.uniformRowStride("a", a)
	op.uniformRowStride("b", b)
	op.kind(kind)
	if op.arena != nil {
		op.require(a.typ == b.typ, "the types must be equal")
	}
	return op.done(C.goggml_op_glu_split(op.arena, a.ptr(), b.ptr(), C.enum_ggml_glu_op(kind)))
}

// XIELUParams are the parameters of [Context.XIELU].
type XIELUParams struct {
	AlphaN, AlphaP, Beta, Eps float32

	Computed bool // if true, AlphaN and AlphaP are n and p themselves, as in [Tensor.OpParams]
}

// XIELU is the activation of arXiv 2411.13010, with p = softplus(AlphaP) and n = Beta +
// softplus(AlphaN):
//
//	p·a² + Beta·a where a > 0, else n·(expm1(min(a, Eps)) − a) + Beta·a
//
// The rows of a have a uniform stride. It has no backward. C: ggml_xielu.
func (c *Context) XIELU(a *Tensor, p XIELUParams) *Tensor {
	op := c.elementwise("xielu", a)
	op.uniformRowStride("a", a)
	r := C.goggml_op_xielu(op.arena, a.ptr(), C.float(p.AlphaN), C.float(p.AlphaP), C.float(p.Beta), C.float(p.Eps))
	if r.value != nil && p.Computed {
		r.value.op_params[1], r.value.op_params[2] = C.int32_t(math.Float32bits(p.AlphaN)), C.int32_t(math.Float32bits(p.AlphaP))
	}
	return op.done(r)
}

func (c *Context) gated(name string, a, b *Tensor) *opCall {
	op := c.begin(name, a, b)
	op.types("a", a, F32, F16)
	op.types("b", b, F32, F16)
	if op.arena != nil {
		op.require(a.typ == b.typ, "the types must be equal")
	}
	op.sameShape(a, b)
	op.uniformRowStride("a", a)
	op.uniformRowStride("b", b)
	return op
}

// SwiGLUOAI returns x·sigmoid(alpha·x)·(y + 1), with x = min(a, limit) and y = b clamped to ±limit.
// Both are F32 or F16, of one shape. It has no backward. C: ggml_swiglu_oai.
func (c *Context) SwiGLUOAI(a, b *Tensor, alpha, limit float32) *Tensor {
	op := c.gated("swiglu_oai", a, b)
	return op.done(C.goggml_op_swiglu_oai(op.arena, a.ptr(), b.ptr(), C.float(alpha), C.float(limit)))
}

// SwiGLUClamp returns silu(min(a, limit))·y, with y = b clamped to ±limit. Both are F32 or F16, of
// one shape. It has no backward. C: ggml_swiglu_clamp.
func (c *Context) SwiGLUClamp(a, b *Tensor, limit float32) *Tensor {
	op := c.gated("swiglu_clamp", a, b)
	return op.done(C.goggml_op_swiglu_clamp(op.arena, a.ptr(), b.ptr(), C.float(limit)))
}
