package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

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
	op.contiguousRows("a", a)
	op.contiguousRows("b", b)
	op.contiguousRows("ids", ids)
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
	op.contiguousRows("a", a)
	op.contiguousRows("b", b)
	if op.arena != nil {
		quantized := a.typ.IsQuantized() && a.typ.IsNumeric()
		op.require(quantized || a.typ == F16 || a.typ == BF16, "a has type %v; it must be f16, bf16 or quantised", a.typ)
		op.require(t == F32 || t == a.typ && !quantized || quantized && (t == F16 || t == BF16 || t.storable()), "the sum of %v and f32 cannot have type %v; use f32 and Cast", a.typ, t)
		op.sameShape(a, b)
		op.checkShape(t, a.ne[:])
	}
	return op.done(C.goggml_op_add_cast(op.arena, a.ptr(), b.ptr(), C.goggml_type(t)))
}

// storable reports whether the CPU converts to the quantised type in a graph; to
// others only Quantize does.
func (t Type) storable() bool {
	switch t {
	case IQ1S, IQ1M, IQ2XXS, IQ2XS, IQ2S, IQ3XXS, IQ3S:
		return false
	}
	return t.IsQuantized() && t.IsNumeric()
}

// XIELUParams are the parameters of [Context.XIELU].
type XIELUParams struct {
	AlphaN, AlphaP, Beta, Eps float32

	Computed bool // AlphaN and AlphaP are n and p themselves, as [Tensor.OpParams] has them
}

// XIELU is the activation of arXiv 2411.13010, with p = softplus(AlphaP) and
// n = Beta + softplus(AlphaN):
//
//	p·a² + Beta·a where a > 0, else n·(expm1(min(a, Eps)) − a) + Beta·a
//
// The rows of a are at equal distances. It has no backward. C: ggml_xielu.
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

// ArgSortTopK returns the indices of the k largest elements of each row, the largest first, I32 [k,
// …]: a view of the result of [Context.ArgSort]. a is F32, its rows are at equal distances. It has
// no backward. C: ggml_argsort_top_k.
func (c *Context) ArgSortTopK(a *Tensor, k int) *Tensor {
	op := c.rows("argsort_top_k", a)
	op.uniformRowStride("a", a)
	if op.arena != nil {
		op.require(k >= 1 && int64(k) <= a.ne[0] && a.ne[0] < 1<<31, "k is %d; it must be 1 to ne0, which is %d", k, a.ne[0])
	}
	return op.done(C.goggml_op_argsort_top_k(op.arena, a.ptr(), C.int(k)))
}
