package ggml

// #include "csrc/goggml.h"
import "C"

// AddID adds to each row of a the row of b that ids chooses:
//
//	a [n, used, tokens], b [n, experts], ids [used, tokens] (I32)
//	result[·, i, t] = a[·, i, t] + b[·, ids[i, t]]
//
// a and b are F32. An index that is out of range is an error of the compute. It
// has no backward. C: ggml_add_id.
func (c *Context) AddID(a, b, ids *Tensor) *Tensor {
	ids = c.inRange(ids, b.Dim(1))
	op := c.begin("add_id", a, b, ids)
	op.types("a", a, F32)
	op.types("b", b, F32)
	op.types("ids", ids, I32)
	op.denseRows("a", a)
	op.denseRows("b", b)
	op.denseRows("ids", ids)
	if op.arena != nil {
		op.require(a.ne[0] == b.ne[0], "ne0 must be equal: a has %d, b has %d", a.ne[0], b.ne[0])
		op.require(a.ne[3] == 1 && b.NumDims() <= 2 && ids.NumDims() <= 2, "a has at most 3 dimensions, b and ids 2")
		op.require(ids.ne[0] == a.ne[1] && ids.ne[1] == a.ne[2], "ids must be [%d, %d], an index for each row of a", a.ne[1], a.ne[2])
	}
	return op.done(C.goggml_op_add_id(op.arena, a.ptr(), b.ptr(), ids.ptr()))
}

// AddCast returns a + b in type t. b is F32 of a's shape; the rows of both are
// contiguous. An a of F16 or BF16 gives F32 or its own type; a quantised one F32,
// F16, BF16, or a quantised type to which [Context.Cast] converts. It has no
// backward. C: ggml_add_cast.
func (c *Context) AddCast(a, b *Tensor, t Type) *Tensor {
	op := c.begin("add_cast", a, b)
	op.types("b", b, F32)
	op.denseRows("a", a)
	op.denseRows("b", b)
	if op.arena != nil {
		quantized := a.typ.Quantized() && a.typ.isFloat()
		op.require(quantized || a.typ == F16 || a.typ == BF16, "a has type %v; it must be f16, bf16 or quantised", a.typ)
		op.require(t == F32 || t == a.typ && !quantized || quantized && (t == F16 || t == BF16 || t.storable()), "the sum of %v and f32 cannot have type %v; use f32 and Cast", a.typ, t)
		op.sameShape(a, b)
		op.checkShape(t, a.ne[:])
	}
	return op.done(C.goggml_op_add_cast(op.arena, a.ptr(), b.ptr(), C.goggml_type(t)))
}

// storable tells whether the CPU converts to the quantised type in a graph; to
// others only Quantize does.
func (t Type) storable() bool {
	switch t {
	case IQ1S, IQ1M, IQ2XXS, IQ2XS, IQ2S, IQ3XXS, IQ3S:
		return false
	}
	return t.Quantized() && t.isFloat()
}

// XIELU is the activation of arXiv 2411.13010, with p = softplus(alphaP) and
// n = beta + softplus(alphaN):
//
//	p·a² + beta·a where a > 0, else n·(expm1(min(a, eps)) − a) + beta·a
//
// The rows of a are at equal distances. It has no backward. C: ggml_xielu.
func (c *Context) XIELU(a *Tensor, alphaN, alphaP, beta, eps float32) *Tensor {
	op := c.elementwise("xielu", a)
	op.evenRows("a", a)
	return op.done(C.goggml_op_xielu(op.arena, a.ptr(), C.float(alphaN), C.float(alphaP), C.float(beta), C.float(eps)))
}

func (c *Context) gated(name string, a, b *Tensor) *opCall {
	op := c.begin(name, a, b)
	op.types("a", a, F32, F16)
	op.types("b", b, F32, F16)
	if op.arena != nil {
		op.require(a.typ == b.typ, "the types must be equal")
	}
	op.sameShape(a, b)
	op.evenRows("a", a)
	op.evenRows("b", b)
	return op
}

// SwiGLUOAI returns x·sigmoid(alpha·x)·(y + 1), with x = min(a, limit) and y =
// b limited to ±limit. Both are F32 or F16,
// of one shape. It has no backward. C: ggml_swiglu_oai.
func (c *Context) SwiGLUOAI(a, b *Tensor, alpha, limit float32) *Tensor {
	op := c.gated("swiglu_oai", a, b)
	return op.done(C.goggml_op_swiglu_oai(op.arena, a.ptr(), b.ptr(), C.float(alpha), C.float(limit)))
}

// SwiGLUClamp returns silu(min(a, limit))·y, with y = b limited to ±limit. Both
// are F32 or F16, of one shape. It has no backward. C: ggml_swiglu_clamp.
func (c *Context) SwiGLUClamp(a, b *Tensor, limit float32) *Tensor {
	op := c.gated("swiglu_clamp", a, b)
	return op.done(C.goggml_op_swiglu_clamp(op.arena, a.ptr(), b.ptr(), C.float(limit)))
}

// ArgSortTopK returns the indices of the k largest elements of each row, the
// largest first, I32 [k, …]: a view of those of [Context.ArgSort]. a is F32,
// its rows are at equal distances. It has no backward. C: ggml_argsort_top_k.
func (c *Context) ArgSortTopK(a *Tensor, k int) *Tensor {
	op := c.rows("argsort_top_k", a)
	op.evenRows("a", a)
	if op.arena != nil {
		op.require(k >= 1 && int64(k) <= a.ne[0] && a.ne[0] < 1<<31, "k is %d; it must be 1 to ne0, which is %d", k, a.ne[0])
	}
	return op.done(C.goggml_op_argsort_top_k(op.arena, a.ptr(), C.int(k)))
}

// sinks adds the logits that a head has besides those of its keys.
func (op *opCall) sinks(sinks *Tensor, heads int64) {
	op.require(sinks != nil, "sinks is nil; use the op without it")
	op.optional(sinks)
	op.types("sinks", sinks, F32)
	op.dense("sinks", sinks)
	if op.arena != nil {
		op.require(sinks.NumDims() == 1 && sinks.ne[0] == heads, "sinks must have an entry for each of the %d heads", heads)
	}
}

// SoftMaxSinks is [Context.SoftMaxExt] with one more logit for each head (ne2
// of a), which takes part in the sum but not in the result. sinks [heads] is
// F32. It has no backward. C: ggml_soft_max_add_sinks.
func (c *Context) SoftMaxSinks(a, mask, sinks *Tensor, scale, maxBias float32) *Tensor {
	op := c.softMax("soft_max_add_sinks", a, mask, maxBias)
	if op.arena != nil {
		op.sinks(sinks, a.ne[2])
	}
	return op.done(C.goggml_op_soft_max_sinks(op.arena, a.ptr(), mask.ptr(), sinks.ptr(), C.float(scale), C.float(maxBias)))
}

// FlashAttentionSinks is [Context.FlashAttention] with one more logit for each
// head of q, as in SoftMaxSinks. It has no backward.
// C: ggml_flash_attn_ext_add_sinks.
func (c *Context) FlashAttentionSinks(q, k, v, mask, sinks *Tensor, scale, maxBias, softcap float32) *Tensor {
	op := c.flashAttention("flash_attn_ext_add_sinks", q, k, v, mask, maxBias)
	if op.arena != nil {
		op.sinks(sinks, q.ne[2])
	}
	return op.done(C.goggml_op_flash_attn_sinks(op.arena, q.ptr(), k.ptr(), v.ptr(), mask.ptr(), sinks.ptr(), C.float(scale), C.float(maxBias), C.float(softcap)))
}
