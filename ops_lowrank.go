package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"math"
	"unsafe"
)

// The number of products that one [Context.AddLowRank], and one
// [Context.TiledLowRank], can add.
const (
	MaxThinPairs      = (maxCustom - 1) / 2
	MaxTiledThinPairs = (maxCustom - 2) / 2
)

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
		op.rowsApart(y)
	}
	if op.arena != nil {
		op.thin("y", y.ne[0], y.ne[1], F32, op.operands[1:])
		op.apart(y, op.operands[1:]...)
	}
	return op.build(func(x **C.struct_ggml_tensor, n C.int) C.goggml_tensor {
		return C.goggml_op_add_low_rank(op.arena, y.ptr(), (**C.struct_ggml_tensor)(unsafe.Add(unsafe.Pointer(x), unsafe.Sizeof(*x))), n-1)
	})
}

// TiledLowRank is [Context.TiledMulMat] of a matrix with a low-rank adapter, and
// takes less time than [Context.AddLowRank] of its result: y [m, n] = w · x + b · h
// for w [k, m] of any float or quantised type, x [k, n], b [m, r], which is F32, F16
// or BF16, and h [r, n]. x is F32 or BF16; h has the same type, and b is converted to
// it. w and x are contiguous.
//
// More pairs of a b and its h may follow, at most [MaxTiledThinPairs] in all; each is
// for the rows of y after those of the pair before.
//
// With a [TiledLibrary] it is an op of the CPU backend; otherwise it is made of
// TiledMulMat and AddLowRank. It has no backward for [Graph.Backward].
func (c *Context) TiledLowRank(w, x, b, h *Tensor, more ...*Tensor) *Tensor {
	n := 4 + len(more)
	operands := append([]*Tensor{w, x, b, h}, more...)
	op := c.begin("tiled_low_rank", operands[:min(n, 2+2*MaxTiledThinPairs)]...)
	op.require(n%2 == 0, "the operands must be pairs")
	op.require(n <= 2+2*MaxTiledThinPairs, "there are %d thin pairs; at most %d can be added", n/2-1, MaxTiledThinPairs)
	op.tiledPairs(op.operands[:2], 0, 1)
	if op.arena != nil {
		op.require(w.NumDims() <= 2 && x.NumDims() <= 2, "w and x must be matrices")
		op.thin("w", w.ne[1], x.ne[1], x.typ, op.operands[2:])
	}
	if TiledLibrary() == "" {
		return op.composed(func() *Tensor { return c.AddLowRank(c.TiledMulMat(w, x), b, h, more...) })
	}
	return op.build(func(operands **C.struct_ggml_tensor, n C.int) C.goggml_tensor {
		return C.goggml_op_tiled_low_rank(op.arena, operands, n)
	})
}

// thin checks pairs of b and h whose products are, one after the other, rows of so
// many columns.
func (op *opCall) thin(name string, rows, columns int64, typ Type, pairs []*Tensor) {
	var products int64
	for ; len(pairs) > 1; pairs = pairs[2:] {
		b, h := pairs[0], pairs[1]
		op.types("b", b, F32, F16, BF16)
		op.types("h", h, typ)
		op.denseRows("b", b)
		op.denseRows("h", h)
		if op.arena == nil {
			return
		}
		op.require(b.NumDims() <= 2 && h.NumDims() <= 2, "b and h must be matrices")
		op.require(h.ne[0] == b.ne[1], "ne0 of h must be ne1 of b: they are %d and %d", h.ne[0], b.ne[1])
		op.require(h.ne[1] == columns, "h must have %d columns, it has %d", columns, h.ne[1])
		for _, t := range []*Tensor{b, h} {
			op.rowsApart(t)
		}
		products += b.ne[0]
	}
	op.require(products == rows, "%s has %d rows, the products have %d", name, rows, products)
}

// rowsApart demands that the rows of a matrix do not overlap, and are not too far
// apart for a library of products.
func (op *opCall) rowsApart(t *Tensor) {
	stride := int64(t.t.nb[1])
	op.require(t.ne[1] == 1 || stride >= t.typ.RowSize(t.ne[0]), "rows must not overlap")
	op.require(t.ne[1] == 1 || stride/t.typ.Size() <= math.MaxInt32, "rows are %d bytes apart, which is too much", stride)
}
