package kernels

// #include "selective_scan.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

// ScanOperands holds the operands of [SelectiveScan]: rows of n tokens, where heads/groups heads share the B and C of a
// group. All are F32.
type ScanOperands struct {
	X    *ggml.Tensor // [size, heads, n, rows], with contiguous rows
	DT   *ggml.Tensor // [heads, n, rows], with contiguous rows
	A    *ggml.Tensor // [heads], contiguous
	B, C *ggml.Tensor // [d, groups, n, rows], with contiguous rows
	D    *ggml.Tensor // [heads], contiguous; nil: none
	// States [d·size·heads, vectors], contiguous, holds the states of sequences. Read and Written I32 [rows] are the vectors before
	// the first and after the last token of each row, which may be the same. Rows are computed one after the other.
	States, Read, Written *ggml.Tensor
}

var selectiveScan = &ggml.NativeOp{
	Name: "selective_scan", Func: unsafe.Pointer(C.kern_op_selective_scan),
	FLOPs: func(y shape, operands []shape) float64 { return 5 * elements(y) * float64(operands[3][0]) },
}

// SelectiveScan returns y [size, heads, n, rows] of the scan of Mamba-2 (arXiv 2405.21060), contiguous, and writes the
// states after the last tokens into States. Each head has a matrix S [d, size]; for each token
//
//	S ← exp(Δ·A)·S + Δ·B·xᵀ,  y = Sᵀ·C + D·x,  Δ = log(1 + exp(dt))
//
// It is [ggml.Context.SSMScan] for one A a head, plus D·x, and copies no states. A row with a vector that does not exist
// gets NaN, and writes nothing. Threads share heads, and the result does not depend on their number. It is an op of the CPU
// backend, and has no backward. States must lie in the CPU's memory: a [ggml.Scheduler] would copy others, and the op would
// change the copy.
func SelectiveScan(c *ggml.Context, s ScanOperands) *ggml.Tensor {
	all := operands{s.X, s.DT, s.A, s.B, s.C, s.States, s.Read, s.Written}
	p := params(C.struct_kern_scan_params{d: all.addOptional(s.D)})
	return c.BuildOp(selectiveScan.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		if requireScan(b, s); !b.OK() {
			return nil
		}
		return b.Native(selectiveScan, p, ggml.F32, s.X.Shape()...)
	})
}

func requireScan(b *ggml.OpBuilder, s ScanOperands) {
	x, d := s.X, s.B.Dim(0)
	size, heads, n, rows := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	for i, t := range []*ggml.Tensor{x, s.DT, s.B, s.C} {
		what := []string{"X", "DT", "B", "C"}[i]
		b.RequireType(what, t, ggml.F32)
		b.RequireContiguousRows(what, t)
	}
	requireF32(b, "A", s.A)
	requireF32(b, "States", s.States)
	b.RequireSameShape(s.B, s.C)
	groups := max(1, s.B.Dim(1)) // 0 of a tensor that stands for a failure
	b.Require(heads%groups == 0, "ne1 of X must be a multiple of ne1 of B: they are %d and %d", heads, groups)
	b.Require(s.B.Dim(2) == n && s.B.Dim(3) == rows, "X and B must be equal in ne2 and ne3")
	b.Require(shapeOf(s.DT) == [4]int64{heads, n, rows, 1}, "DT must be [heads, n, rows] of X, [%d, %d, %d]", heads, n, rows)
	b.Require(s.A.NumElements() == heads, "A must have %d elements, one for each head of X", heads)
	if s.D != nil {
		requireF32(b, "D", s.D)
		b.Require(s.D.NumElements() == heads, "D must have %d elements, one for each head of X", heads)
		b.RequireNoOverlap(s.States, s.D)
	}
	states := shapeOf(s.States)
	b.Require(states == [4]int64{d * size * heads, states[1], 1, 1}, "States must be [d·size·heads, vectors], vectors of %d elements", d*size*heads)
	for i, t := range []*ggml.Tensor{s.Read, s.Written} {
		what := []string{"Read", "Written"}[i]
		b.RequireType(what, t, ggml.I32)
		b.RequireContiguous(what, t)
		b.Require(shapeOf(t) == [4]int64{rows, 1, 1, 1}, "%s must be [rows] of X, [%d]", what, rows)
	}
	b.RequireNoOverlap(s.States, x, s.DT, s.A, s.B, s.C, s.Read, s.Written)
	b.Require(max(size, heads, n, d, states[1]) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
	requireChunks(b, float64(heads))
}
