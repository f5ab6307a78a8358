package ggml

// #include "csrc/goggml.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Row indices are data, and ggml ends the process if one is out of range. Indices that the caller
// wrote are checked before each compute, in csrc/row_index.c; indices that the graph computes are
// checked during the compute, by a node of their own.

// inRange returns ids. If the graph computes them and they may be outside 0 to rows−1, it returns a
// checked copy.
func (c *Context) inRange(ids *Tensor, rows int64) *Tensor {
	if ids == nil || ids.t == nil || ids.typ != I32 && ids.typ != I64 || ids.known(rows) {
		return ids
	}
	return c.MapCustom(checkRows(rows), 1, ids)
}

// known reports whether the indices can be checked before a compute, or cannot exceed rows because
// of the op that computes them. It also reports true if they depend on a closed context, because
// the compute then fails anyway.
func (t *Tensor) known(rows int64) bool {
	var refs references
	defer refs.release()
	for _, c := range t.ctx.withDependencies() {
		if refs.add(c.h) != nil {
			return true
		}
	}
	for p := t.t; ; p = p.src[0] {
		switch p.op {
		case C.GGML_OP_NONE:
			if p.src[0] == nil {
				return true
			}
			// an alias
		case C.GGML_OP_ARGMAX, C.GGML_OP_ARGSORT, C.GGML_OP_TOP_K:
			return int64(p.src[0].ne[0]) <= rows
		case C.GGML_OP_CPY: // Cast, but not Copy into another tensor
			return p.view_src == nil && p.src[0].op == C.GGML_OP_ARANGE && countsWithin(p.src[0], rows)
		case C.GGML_OP_VIEW, C.GGML_OP_RESHAPE, C.GGML_OP_PERMUTE, C.GGML_OP_TRANSPOSE, C.GGML_OP_CONT:
		default:
			return false
		}
	}
}

// countsWithin reports whether all values of an arange are from 0 to rows−1. Whole values are exact
// up to 2²⁴.
func countsWithin(arange *C.struct_ggml_tensor, rows int64) bool {
	const exact = 1 << 24
	params := (*[3]float32)(unsafe.Pointer(&arange.op_params))
	start, step := float64(params[0]), float64(params[2])
	last := start + step*float64(arange.ne[0]-1)
	limit := float64(min(rows, exact))
	return start == math.Trunc(start) && step == math.Trunc(step) && start >= 0 && last < limit
}

// checkRows returns a function that copies indices and fails if one is out of range. The copy
// contains only valid indices, because other threads may already be on their way to the next op.
func checkRows(rows int64) CustomFunc {
	return func(_ Worker, dst CustomTensor, src ...CustomTensor) error {
		if dst.Type == I64 {
			return copyIndices(CustomSlice[int64](dst), src[0], rows)
		}
		return copyIndices(CustomSlice[int32](dst), src[0], rows)
	}
}

func copyIndices[T int32 | int64](dst []T, src CustomTensor, rows int64) error {
	for i := range dst {
		id := *(*T)(src.at(int64(i)))
		if id < 0 || int64(id) >= rows {
			clear(dst)
			return fmt.Errorf("row index %d is out of range: there are %d rows", id, rows)
		}
		dst[i] = id
	}
	return nil
}

// at returns the address of element i, in any layout.
func (t CustomTensor) at(i int64) unsafe.Pointer {
	p := t.data
	for d, n := range t.Shape {
		p = unsafe.Add(p, i%n*t.Stride[d])
		i /= n
	}
	return p
}
