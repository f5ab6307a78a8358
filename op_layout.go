package ggml

// #include "csrc/goggml.h"
import "C"

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
