package ggml

// #include "csrc/goggml.h"
import "C"

import "unsafe"

// MaxThinPairs is the number of products that one [Context.AddLowRank] can add.
const MaxThinPairs = (maxCustom - 1) / 2

// AddLowRank adds the product of thin matrices to y, in place, and returns a
// view of it: y [m, n] += b · h for b [m, r], which is F32, F16 or BF16, and
// h [r, n]. y and h are F32. It is the second half of a low-rank adapter
// (arXiv 2106.09685), whose short sums [Context.MulMat] is slow at.
//
// More pairs of a b and its h may follow, at most [MaxThinPairs] in all; each is
// for the rows of y after those of the pair before.
//
// It is an op of the CPU backend, which uses the [TiledLibrary] for many
// columns. It has no backward for [Graph.Backward].
func (c *Context) AddLowRank(y, b, h *Tensor, more ...*Tensor) *Tensor {
	n := 3 + len(more)
	operands := append([]*Tensor{y, b, h}, more...)
	op := c.begin("add_low_rank", operands[:min(n, 1+2*MaxThinPairs)]...)
	op.require(n%2 == 1, "the operands must be y and pairs")
	op.require(n <= 1+2*MaxThinPairs, "there are %d pairs; at most %d can be added", n/2, MaxThinPairs)
	op.types("y", y, F32)
	op.denseRows("y", y)
	if op.arena != nil {
		op.require(y.NumDims() <= 2, "y must be a matrix")
		op.require(y.ne[1] == 1 || int64(y.t.nb[1]) >= y.typ.RowSize(y.ne[0]), "rows must not overlap")
	}
	var rows int64
	for i := 1; i+1 < n && op.arena != nil; i += 2 {
		rows += op.thin(y, op.operands[i], op.operands[i+1])
	}
	if op.arena != nil {
		op.require(rows == y.ne[0], "y has %d rows, the products have %d", y.ne[0], rows)
		op.apart(y, op.operands[1:]...)
	}
	return op.build(func(x **C.struct_ggml_tensor, n C.int) C.goggml_tensor {
		return C.goggml_op_add_low_rank(op.arena, y.ptr(), (**C.struct_ggml_tensor)(unsafe.Add(unsafe.Pointer(x), unsafe.Sizeof(*x))), n-1)
	})
}

// thin checks a pair, and returns the rows of its product.
func (op *opCall) thin(y, b, h *Tensor) int64 {
	op.types("b", b, F32, F16, BF16)
	op.types("h", h, F32)
	op.denseRows("b", b)
	op.denseRows("h", h)
	if op.arena == nil {
		return 0
	}
	op.require(b.NumDims() <= 2 && h.NumDims() <= 2, "b and h must be matrices")
	op.require(h.ne[0] == b.ne[1], "ne0 of h must be ne1 of b: they are %d and %d", h.ne[0], b.ne[1])
	op.require(h.ne[1] == y.ne[1], "ne1 must be equal: y has %d, h has %d", y.ne[1], h.ne[1])
	for _, t := range []*Tensor{b, h} {
		op.require(t.ne[1] == 1 || int64(t.t.nb[1]) >= t.typ.RowSize(t.ne[0]), "rows must not overlap")
	}
	return b.ne[0]
}
