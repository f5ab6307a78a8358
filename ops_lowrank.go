package ggml

// #include "csrc/goggml.h"
import "C"

// AddLowRank adds the product of thin matrices to y, in place, and returns a
// view of it: y [m, n] += b · h for b [m, r], which is F32, F16 or BF16, and
// h [r, n]. y and h are F32. It is the second half of a low-rank adapter
// (arXiv 2106.09685), whose short sums [Context.MulMat] is slow at.
//
// It is an op of the CPU backend, which uses the [TiledLibrary] for many
// columns. It has no backward for [Graph.Backward].
func (c *Context) AddLowRank(y, b, h *Tensor) *Tensor {
	op := c.begin("add_low_rank", y, b, h)
	op.types("y", y, F32)
	op.types("b", b, F32, F16, BF16)
	op.types("h", h, F32)
	op.denseRows("y", y)
	op.denseRows("b", b)
	op.denseRows("h", h)
	if op.arena != nil {
		op.require(y.NumDims() <= 2 && b.NumDims() <= 2 && h.NumDims() <= 2, "all must be matrices")
		op.require(b.ne[0] == y.ne[0], "ne0 must be equal: y has %d, b has %d", y.ne[0], b.ne[0])
		op.require(h.ne[0] == b.ne[1], "ne0 of h must be ne1 of b: they are %d and %d", h.ne[0], b.ne[1])
		op.require(h.ne[1] == y.ne[1], "ne1 must be equal: y has %d, h has %d", y.ne[1], h.ne[1])
		for _, t := range []*Tensor{y, b, h} {
			op.require(t.ne[1] == 1 || int64(t.t.nb[1]) >= t.typ.RowSize(t.ne[0]), "rows must not overlap")
		}
	}
	return op.done(C.goggml_op_add_low_rank(op.arena, y.ptr(), b.ptr(), h.ptr()))
}
