package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"cmp"
	"slices"
)

// writable demands a tensor without elements that share memory: an op that
// writes them would give what its threads happen to write last.
func (op *opCall) writable(what string, t *Tensor) {
	if op.arena != nil && t != nil {
		op.require(!t.overlaps(), "elements of %s share memory, and cannot be written; call Cont", what)
	}
}

func (t *Tensor) overlaps() bool {
	var nb [MaxDims]int64
	for i := range nb {
		nb[i] = int64(t.t.nb[i])
	}
	ne := t.ne
	ne[0] /= t.typ.BlockSize()
	return overlaps(ne, nb, t.typ.Size())
}

// overlaps tells whether elements of a size share bytes, for sizes and strides
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
