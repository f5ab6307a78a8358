package kernels

// #include "grouped_gemm.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

// A grouped is GroupedGEMM or the gradient of its input.
type grouped struct {
	op       *ggml.NativeOp
	sum, out int // dimensions of W, as in [gemm]
	builtin  func(c *ggml.Context, w *ggml.Tensor) *ggml.Tensor
	floats   *grouped // of the product in integers: the same in floats
}

var (
	groupedForward = &grouped{
		op:  &ggml.NativeOp{Name: "grouped_gemm", Func: unsafe.Pointer(C.kern_op_grouped_gemm), FLOPs: groupedFLOPs(0)},
		sum: 0, out: 1,
		builtin: func(_ *ggml.Context, w *ggml.Tensor) *ggml.Tensor { return w },
	}
	groupedGradInput = &grouped{
		op:  &ggml.NativeOp{Name: "grouped_gemm_grad_input", Func: unsafe.Pointer(C.kern_op_grouped_gemm_grad_input), FLOPs: groupedFLOPs(1)},
		sum: 1, out: 0,
		builtin: func(c *ggml.Context, w *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Transpose(w)) },
	}
)

// leastIntegerColumns is the number of an expert's columns from which on integers take less time than floats: packing a
// weight takes as long as its products with some columns.
const leastIntegerColumns = 32

var (
	groupedForwardInt = &grouped{
		op:  &ggml.NativeOp{Name: "grouped_gemm_int", Func: unsafe.Pointer(C.kern_op_grouped_gemm_int), FLOPs: groupedFLOPs(0)},
		sum: 0, out: 1, floats: groupedForward,
	}
	groupedGradInputInt = &grouped{
		op:  &ggml.NativeOp{Name: "grouped_gemm_grad_input_int", Func: unsafe.Pointer(C.kern_op_grouped_gemm_grad_input_int), FLOPs: groupedFLOPs(1)},
		sum: 1, out: 0, floats: groupedGradInput,
	}
	groupedGradInputI8 = &grouped{
		op:  &ggml.NativeOp{Name: "grouped_gemm_grad_input_i8", Func: unsafe.Pointer(C.kern_op_grouped_gemm_grad_input_i8), FLOPs: groupedFLOPs(1)},
		sum: 1, out: 0, floats: groupedGradInput,
	}
)

func groupedFLOPs(sum int) func(result shape, operands []shape) float64 {
	return func(result shape, operands []shape) float64 { return 2 * elements(result) * float64(operands[0][sum]) }
}

// GroupedGEMM multiplies each column with the matrix that ids selects for it, for mixtures of
// experts:
//
//	W [k, m, experts], X [k, used, n] or [k, 1, n], ids [used, n] (I32) → W_idᵀ·X [m, used, n], F32
//
// Each column of X [k, 1, n] is multiplied with used matrices. W has any float or quantised type,
// and is converted to the type of X, F32 or BF16, as in [GEMM]: once for all columns of an expert,
// or for up to 512 of them. An invalid index makes a column of NaN. All operands except ids are
// contiguous.
//
// It is one op of the CPU backend, and its results do not depend on the number of threads; without
// a [GEMMLibrary] it is composed of Cast and MulMatID. It has no backward for
// [ggml.Graph.Backward].
func GroupedGEMM(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor {
	return groupedForward.build(c, "X", w, x, ids)
}

// GroupedGEMMGradInput returns the gradient of X in [GroupedGEMM], given the gradient dY of the
// result:
//
//	W [k, m, experts], dY [m, used, n], ids [used, n] (I32) → W_id·dY [k, used, n], F32
//
// If the experts of a token share a column of X, its gradient is the sum over used. It has no
// backward.
func GroupedGEMMGradInput(c *ggml.Context, w, dy, ids *ggml.Tensor) *ggml.Tensor {
	return groupedGradInput.build(c, "dY", w, dy, ids)
}

// GroupedGEMMInt is [GroupedGEMM] in 16-bit integers, as [GEMMInt] rounds, for experts with at least 32 columns. Others
// are multiplied in the type of X.
//
// If [HasIntegers] is false, it is GroupedGEMM.
func GroupedGEMMInt(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor {
	return groupedForwardInt.build(c, "X", w, x, ids)
}

// GroupedGEMMGradInputInt is [GroupedGEMMGradInput] in integers, as [GEMMGradInputInt] rounds, for experts with at least
// 32 columns. Others are multiplied in the type of dY.
//
// If [HasIntegers] is false, it is GroupedGEMMGradInput.
func GroupedGEMMGradInputInt(c *ggml.Context, w, dy, ids *ggml.Tensor) *ggml.Tensor {
	return groupedGradInputInt.build(c, "dY", w, dy, ids)
}

// GroupedGEMMGradInputI8 is [GroupedGEMMGradInputInt] in 8-bit integers, as [GEMMGradInputI8] rounds.
//
// If [HasI8] is false, it is GroupedGEMMGradInputInt.
func GroupedGEMMGradInputI8(c *ggml.Context, w, dy, ids *ggml.Tensor) *ggml.Tensor {
	if !HasI8() {
		return GroupedGEMMGradInputInt(c, w, dy, ids)
	}
	return groupedGradInputI8.build(c, "dY", w, dy, ids)
}

func (g *grouped) build(c *ggml.Context, what string, w, x, ids *ggml.Tensor) *ggml.Tensor {
	return c.BuildOp(g.op.Name, []*ggml.Tensor{w, x, ids}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLibrary(b)
		requireFactor(b, what, x)
		requireGrouped(b, what, w, x, ids)
		b.Require(w.Dim(g.sum) == x.Dim(0), "ne%d of W must be ne0 of %s: they are %d and %d", g.sum, what, w.Dim(g.sum), x.Dim(0))
		b.Require(x.Dim(1) == ids.Dim(0) || g.sum == 0 && x.Dim(1) == 1, "ne1 of %s must be ne0 of ids: they are %d and %d", what, x.Dim(1), ids.Dim(0))
		requireChunks(b, float64(w.Dim(2)+1)*(float64(w.Dim(g.out))/256+1))
		switch {
		case !b.OK():
			return nil
		case g.floats != nil && !HasIntegers():
			return b.Compose(func() *ggml.Tensor { return g.floats.build(c, what, w, x, ids) })
		case g.floats == nil && !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return c.MulMatID(g.builtin(c, toF32(c, w)), x, ids) })
		}
		var own []byte
		if g.floats != nil {
			least := C.int32_t(leastIntegerColumns)
			if !hasLibrary() {
				least = 1
			}
			own = params(C.struct_kern_grouped_int_params{least: least})
		}
		return b.Native(g.op, own, ggml.F32, w.Dim(g.out), ids.Dim(0), ids.Dim(1))
	})
}

// requireGrouped checks the operands that all products of experts share.
func requireGrouped(b *ggml.OpBuilder, what string, w, x, ids *ggml.Tensor) {
	requireNumeric(b, "W", w)
	b.RequireType("ids", ids, ggml.I32)
	b.RequireContiguous("W", w)
	b.RequireContiguous(what, x)
	b.Require(w.Dim(3) == 1 && x.Dim(3) == 1, "W and %s have at most 3 dimensions", what)
	b.Require(ids.NumDims() <= 2 && ids.Dim(1) == x.Dim(2), "ids must be [used, n] with n = ne2 of %s", what)
	b.Require(max(w.Dim(0), w.Dim(1), ids.NumElements()) <= math.MaxInt32, "a dimension is above %d", math.MaxInt32)
}
