package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"slices"
)

// writable demands a tensor whose elements do not share memory: threads that
// write the same place leave whichever value came last.
func (op *opCall) writable(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(!t.overlaps(), "elements of %s share memory, and cannot be written; call Cont", what)
	}
}

// noOverlap demands that an op which changes a in place does not also read it as
// another operand: its threads would read old or new values by chance.
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

// overlaps reports whether elements of a size share bytes, for sizes and strides
// of the dimensions. Layouts where they interleave count too.
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

// The layouts that ops demand of their operands, from the loosest to the strictest, as in
// csrc/layout.h: contiguous rows, a uniform row stride, contiguous, canonical strides.

func (op *opCall) layout(what string, t *Tensor, layout C.enum_goggml_layout, format string) {
	if op.arena != nil && t != nil {
		op.require(bool(C.goggml_has_layout(t.t, layout)), format, what)
	}
}

// contiguousRows demands that the elements of each row are adjacent.
func (op *opCall) contiguousRows(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(t.hasContiguousRows(), "the rows of %s must be contiguous; call Cont", what)
	}
}

// uniformRowStride demands contiguous rows, all at multiples of one stride.
func (op *opCall) uniformRowStride(what string, t *Tensor) {
	op.layout(what, t, C.GOGGML_UNIFORM_ROW_STRIDE, "the rows of %s must be contiguous and at equal distances; call Cont")
}

// contiguous demands a tensor without gaps or permutation.
func (op *opCall) contiguous(what string, t *Tensor) {
	op.layout(what, t, C.GOGGML_CONTIGUOUS, "%s must be contiguous; call Cont")
}

// canonicalStrides demands the strides of a new tensor, also in dimensions of
// size 1, which not all kernels ignore.
func (op *opCall) canonicalStrides(what string, t *Tensor) {
	op.layout(what, t, C.GOGGML_CANONICAL_STRIDES, "%s must be contiguous; call Cont")
}

// hasContiguousRows reports whether the elements of a row are adjacent, in a quantised row in whole
// blocks. A transposed tensor fails. ggml's own test lets a row of one element have any stride, but
// not all its kernels do. It is written in Go as most ops demand it, and a call of C takes longer.
func (t *Tensor) hasContiguousRows() bool {
	return int64(t.t.nb[0]) == t.typ.BlockBytes() && t.ne[0]%t.typ.BlockSize() == 0
}
