package ggml

// #include "csrc/goggml.h"
import "C"

import "math"

// LightningIndexer computes the scores of keys for each query of sparse attention:
//
//	q [d, heads, n, streams], k [d, 1, kv, streams], weights [heads, n, 1, streams],
//	mask [kv, n, 1, m] (F16) with m dividing streams → [kv, n, 1, streams]
//	result[j, i] = Σₕ weights[h, i]·relu(q[·, h, i]·k[·, j]) + mask[j, i]
//
// q and weights are F32, k has any float or quantised type. The rows of q and k are contiguous. It
// has no backward. C: ggml_lightning_indexer.
func (c *Context) LightningIndexer(q, k, weights, mask *Tensor) *Tensor {
	op := c.begin("lightning_indexer", q, k, weights, mask)
	op.types("q", q, F32)
	op.types("weights", weights, F32)
	op.types("mask", mask, F16)
	op.contiguousRows("q", q)
	op.contiguousRows("k", k)
	if op.arena != nil {
		op.require(k.typ.IsNumeric(), "k must have a float or quantised type")
		d, heads, n, streams := q.ne[0], q.ne[1], q.ne[2], q.ne[3]
		op.require(k.ne[0] == d && k.ne[1] == 1 && k.ne[3] == streams, "k must be [%d, 1, kv, %d]", d, streams)
		op.require(weights.ne == [4]int64{heads, n, 1, streams}, "weights must be [%d, %d, 1, %d]", heads, n, streams)
		op.require(mask.ne[0] == k.ne[2] && mask.ne[1] == n && mask.ne[2] == 1 && streams%mask.ne[3] == 0, "mask must be [%d, %d, 1, m], and m divide %d", k.ne[2], n, streams)
		op.require(k.ne[2] < math.MaxInt32 && n < math.MaxInt32, "there are too many keys or queries")
	}
	return op.done(C.goggml_op_lightning_indexer(op.arena, q.ptr(), k.ptr(), weights.ptr(), mask.ptr()))
}

// streams is the number of streams that the CPU mixes; sums take any number.
const streams = 4

func (op *opCall) allF32(operands ...*Tensor) {
	for _, t := range operands {
		op.types("each operand", t, F32)
	}
}

// Sinkhorn are the settings of the Sinkhorn-Knopp normalisation in [Context.HyperConnectComb].
type Sinkhorn struct {
	Eps        float32 // added to the softmax and to each sum
	Iterations int     // at least 1
}

// HyperConnectComb makes the matrices that mix the 4 streams of hyper-connections (arXiv
// 2512.24880):
//
//	mixes [24, tokens], scale [3], base [24] → [to, from, tokens]
//	logits[to, from, t] = mixes[8 + to + 4·from, t]·scale[2] + base[8 + to + 4·from]
//
// It takes the softmax over to, plus Eps, and divides by the sums over from; then, Iterations − 1
// times, by the sums over to and the sums over from. Eps is added to each sum. All are F32. It has
// no backward. C: ggml_dsv4_hc_comb.
func (c *Context) HyperConnectComb(mixes, scale, base *Tensor, s Sinkhorn) *Tensor {
	op := c.begin("dsv4_hc_comb", mixes, scale, base)
	op.allF32(mixes, scale, base)
	op.require(s.Iterations >= 1 && s.Iterations <= 1<<16, "there are %d iterations; there must be 1 to %d", s.Iterations, 1<<16)
	op.require(s.Eps >= 0, "eps is %v; it must not be negative", s.Eps)
	if op.arena != nil {
		const width = (2 + streams) * streams
		op.require(mixes.NumDims() <= 2 && mixes.ne[0] == width, "mixes must be [%d, tokens]", width)
		op.require(scale.NumDims() == 1 && scale.ne[0] == 3, "scale must have 3 elements")
		op.require(base.NumDims() == 1 && base.ne[0] == width, "base must have %d elements", width)
	}
	return op.done(C.goggml_op_dsv4_hc_comb(op.arena, mixes.ptr(), scale.ptr(), base.ptr(), C.float(s.Eps), C.int32_t(s.Iterations)))
}

// HyperConnectPre sums the streams h with weights:
//
//	x [n, streams, tokens], weights [streams, tokens] → [n, tokens]
//
// Both are F32. It has no backward. C: ggml_dsv4_hc_pre.
func (c *Context) HyperConnectPre(x, weights *Tensor) *Tensor {
	op := c.begin("dsv4_hc_pre", x, weights)
	op.allF32(x, weights)
	if op.arena != nil {
		op.require(x.ne[3] == 1, "x has 4 dimensions; it must have at most 3")
		op.require(weights.ne == [4]int64{x.ne[1], x.ne[2], 1, 1}, "weights must be [%d, %d]", x.ne[1], x.ne[2])
	}
	return op.done(C.goggml_op_dsv4_hc_pre(op.arena, x.ptr(), weights.ptr()))
}

// HyperConnectPreGated returns scale·Σ x·sigmoid(gate) over the streams:
//
//	x and gate [n, streams, tokens] → [n, tokens]
//
// Both are F32. It has no backward. C: ggml_dsv4_hc_pre_gated.
func (c *Context) HyperConnectPreGated(x, gate *Tensor, scale float32) *Tensor {
	op := c.begin("dsv4_hc_pre_gated", x, gate)
	op.allF32(x, gate)
	op.sameShape(x, gate)
	if op.arena != nil {
		op.require(x.ne[3] == 1, "x has 4 dimensions; it must have at most 3")
	}
	return op.done(C.goggml_op_dsv4_hc_pre_gated(op.arena, x.ptr(), gate.ptr(), C.float(scale)))
}

// HyperConnectPost adds x to each stream with the weights post and mixes the streams:
//
//	x [n, tokens], residual [n, streams, tokens], post [streams, tokens],
//	comb [to, from, tokens], or nil for the identity → [n, streams, tokens]
//	result[·, to, t] = x[·, t]·post[to, t] + Σ residual[·, from, t]·comb[to, from, t]
//
// All are F32, comb contiguous. It has no backward. C: ggml_dsv4_hc_post.
func (c *Context) HyperConnectPost(x, residual, post, comb *Tensor) *Tensor {
	op := c.begin("dsv4_hc_post", x, residual, post)
	op.optional(comb)
	op.allF32(x, residual, post, comb)
	op.contiguous("comb", comb)
	if op.arena != nil {
		n, tokens := x.ne[0], x.ne[1]
		op.require(x.NumDims() <= 2, "x has %d dimensions; it must be a matrix", x.NumDims())
		op.require(residual.ne == [4]int64{n, streams, tokens, 1}, "residual must be [%d, %d, %d]", n, streams, tokens)
		op.require(post.ne == [4]int64{streams, tokens, 1, 1}, "post must be [%d, %d]", streams, tokens)
		op.require(comb == nil || comb.ne == [4]int64{streams, streams, tokens, 1}, "comb must be [%d, %d, %d]", streams, streams, tokens)
	}
	return op.done(C.goggml_op_dsv4_hc_post(op.arena, x.ptr(), residual.ptr(), post.ptr(), comb.ptr()))
}
