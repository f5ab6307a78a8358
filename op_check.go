package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"slices"
)

// writable requires a tensor whose elements do not share memory: otherwise threads that write the
// same address leave a random value.
func (op *opCall) writable(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(!t.overlaps(), "elements of %s share memory, and cannot be written; call Cont", what)
	}
}

// noOverlap requires that an op that changes a in place does not also read a's memory as another
// operand: its threads would read old or new values by chance.
func (op *opCall) noOverlap(a *Tensor, others ...*Tensor) {
	for _, b := range others {
		if op.arena == nil || b == nil || a.root() != b.root() {
			continue
		}
		from, to := int64(a.t.view_offs), int64(a.t.view_offs)+int64(C.ggml_nbytes(a.t))
		start, end := int64(b.t.view_offs), int64(b.t.view_offs)+int64(C.ggml_nbytes(b.t))
		op.require(end <= from || to <= start, "an operand shares memory with the one that is changed in place; give the op a copy by Dup")
	}
}

func (t *Tensor) overlaps() bool {
	var nb [MaxDims]int64
	for i := range nb {
		nb[i] = int64(t.t.nb[i])
	}
	ne := t.ne
	ne[0] /= t.typ.BlockSize()
	return overlaps(ne, nb, t.typ.BlockBytes())
}

// overlaps reports whether elements of the given size share bytes, for shape ne and strides nb. It
// also reports layouts whose dimensions interleave.
func overlaps(ne, nb [MaxDims]int64, size int64) bool {
	dims := []int{0, 1, 2, 3}
	slices.SortFunc(dims, func(a, b int) int { return cmp.Compare(nb[a], nb[b]) })
	extent := size
	for _, d := range dims {
		if ne[d] == 1 {
			continue
		}
		if nb[d] < extent {
			return true
		}
		extent += (ne[d] - 1) * nb[d]
	}
	return false
}

// The layouts that ops require of operands, from the loosest to the strictest, as in csrc/layout.h:
// contiguous rows, a uniform row stride, contiguous, canonical strides.

func (op *opCall) layout(what string, t *Tensor, layout C.enum_goggml_layout, format string) {
	if op.arena != nil && t != nil {
		op.require(bool(C.goggml_has_layout(t.t, layout)), format, what)
	}
}

// contiguousRows requires that the elements of each row are adjacent.
func (op *opCall) contiguousRows(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(t.hasContiguousRows(), "the rows of %s must be contiguous; call Cont", what)
	}
}

// uniformRowStride requires contiguous rows at multiples of one stride.
func (op *opCall) uniformRowStride(what string, t *Tensor) {
	op.layout(what, t, C.GOGGML_UNIFORM_ROW_STRIDE, "the rows of %s must be contiguous and at equal distances; call Cont")
}

// contiguous requires a tensor without gaps or permutation.
func (op *opCall) contiguous(what string, t *Tensor) {
	op.layout(what, t, C.GOGGML_CONTIGUOUS, "%s must be contiguous; call Cont")
}

// canonicalStrides requires the strides of a new tensor, including dimensions of size 1, whose
// strides not all kernels ignore.
func (op *opCall) canonicalStrides(what string, t *Tensor) {
	op.layout(what, t, C.GOGGML_CANONICAL_STRIDES, "%s must be contiguous; call Cont")
}

// hasContiguousRows reports whether the elements of a row (the blocks of a quantised row) are
// adjacent. A transposed tensor fails. ggml's own test allows a row of one element to have any
// stride, but not all its kernels do. It is written in Go because most ops require it, and a call
// of C takes longer.
func (t *Tensor) hasContiguousRows() bool {
	return int64(t.t.nb[0]) == t.typ.BlockBytes() && t.ne[0]%t.typ.BlockSize() == 0
}
