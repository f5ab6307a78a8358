package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// CausalSoftMaxInPlace makes the scores of causal attention weights, in place,
// and returns a view of them: a [keys, queries, …], F32 and contiguous, where
// query i, at position first + i, sees the keys up to that position.
//
//	y = softmax(scale · a) over the first first + i + 1 keys, 0 for the others
//
// It does what [Context.DiagMaskInfInPlace] and [Context.SoftMaxExtInPlace] do
// together, several times as fast. It is an op of the CPU backend, and has no
// backward for [Graph.Backward]; the gradient of a is
// [Context.SoftMaxBackInPlace] with the result.
func (c *Context) CausalSoftMaxInPlace(a *Tensor, scale float32, first int) *Tensor {
	op := c.begin("causal_soft_max", a)
	op.types("a", a, F32)
	op.dense("a", a)
	op.require(scale > 0 && scale <= math.MaxFloat32, "the scale is %v; it must be above 0 and finite", scale)
	op.require(first >= 0 && first <= math.MaxInt32, "the first query is at position %d; it must be 0 to %d", first, math.MaxInt32)
	return op.done(C.goggml_op_causal_soft_max(op.arena, a.ptr(), C.float(scale), C.int32_t(first)))
}

// CausalAttention is the attention of sequences that begin at position 0:
//
//	q [size, heads, n, batch], k and v [size, groups, n, batch] → [size, heads, n, batch]
//	y = softmax(scale · q·kᵀ) · v over the keys up to the query's position
//
// where heads/groups heads share the keys and values of a group. All are F32 with
// contiguous rows. The scores of a few queries exist at a time: memory grows with n
// and no faster.
//
// With a [TiledLibrary] it is an op of the CPU backend, whose results do not depend on
// the number of threads; otherwise it is made of tiled products and
// CausalSoftMaxInPlace. It has no backward for [Graph.Backward]; the gradients are
// [Context.CausalAttentionBack].
func (c *Context) CausalAttention(q, k, v *Tensor, scale float32) *Tensor {
	op := c.begin("causal_attention", q, k, v)
	op.attention(q, k, v, scale)
	if TiledLibrary() == "" {
		return op.composed(func() *Tensor { return c.attendInBlocks(q, k, v, scale) })
	}
	return op.done(C.goggml_op_causal_attention(op.arena, q.ptr(), k.ptr(), v.ptr(), C.float(scale)))
}

// CausalAttentionBack returns the gradients of q, k and v in
// [Context.CausalAttention], given that of the result: dy [size, heads, n, batch], F32
// with contiguous rows. The gradients are contiguous, of the shapes of q, k and v. They
// have no backward.
func (c *Context) CausalAttentionBack(dy, q, k, v *Tensor, scale float32) (dq, dk, dv *Tensor) {
	op := c.begin("causal_attention_back", dy, q, k, v)
	op.attention(q, k, v, scale)
	op.rowsOfF32("dy", dy)
	op.sameShape(dy, q)
	parts := int64(1)
	var all *Tensor
	switch {
	case op.arena == nil:
		all = op.done(C.goggml_tensor{})
		return all, all, all
	case TiledLibrary() == "":
		all = op.composed(func() *Tensor { return c.attendBackInBlocks(dy, q, k, v, scale) })
	default:
		parts = attentionParts(q, k)
		all = op.done(C.goggml_op_causal_attention_back(op.arena, dy.ptr(), q.ptr(), k.ptr(), v.ptr(), C.float(scale), C.int32_t(parts)))
	}
	keys := q.NumElements()
	values := keys + parts*k.NumElements()
	return c.View(all, q.Shape(), nil, 0), c.addParts(all, k, keys, parts), c.addParts(all, v, values, parts)
}

// addParts adds up parts of x, each of the shape of like, that lie one after the other
// from an element on.
func (c *Context) addParts(x, like *Tensor, from, parts int64) *Tensor {
	part := func(i int64) *Tensor {
		return c.View(x, like.Shape(), nil, (from+i*like.NumElements())*x.typ.Size())
	}
	sum := part(0)
	for i := int64(1); i < parts; i++ {
		sum = c.Add(sum, part(i))
	}
	return sum
}

// attentionParts is the number of parts into which the heads of a group are divided,
// so that there is work for several threads.
func attentionParts(q, k *Tensor) int64 {
	const tasks = 16
	each := q.ne[1] / k.ne[1]
	for parts := int64(1); parts < each; parts++ {
		if each%parts == 0 && parts*k.ne[1]*q.ne[3] >= tasks {
			return parts
		}
	}
	return each
}

func (op *opCall) attention(q, k, v *Tensor, scale float32) {
	op.rowsOfF32("q", q)
	op.rowsOfF32("k", k)
	op.rowsOfF32("v", v)
	op.sameShape(k, v)
	if op.arena != nil {
		op.require(q.ne[0] == k.ne[0] && q.ne[2] == k.ne[2] && q.ne[3] == k.ne[3], "q and k must be equal but in ne1")
		op.require(q.ne[1]%k.ne[1] == 0, "ne1 of q must be a multiple of that of k: they are %d and %d", q.ne[1], k.ne[1])
		op.require(max(q.ne[0]*q.ne[1], q.ne[2]) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
		const queries = 64 // of a block
		op.pieces(float64(q.ne[1]) * float64(q.ne[3]) * (float64(q.ne[2])/queries + 1))
	}
	op.require(scale > 0 && scale <= math.MaxFloat32, "the scale is %v; it must be above 0 and finite", scale)
}

// rowsOfF32 demands contiguous rows, of which those of tokens do not overlap.
func (op *opCall) rowsOfF32(name string, x *Tensor) {
	op.types(name, x, F32)
	op.denseRows(name, x)
	if op.arena != nil {
		stride := int64(x.t.nb[2])
		op.require(x.ne[2] == 1 || stride >= x.typ.RowSize(x.ne[0]) && stride/F32.Size() <= math.MaxInt32, "tokens of %s are %d bytes apart, which is less than a row or too much", name, stride)
	}
}
