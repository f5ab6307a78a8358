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
