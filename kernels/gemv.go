package kernels

// #include "gemv.h"
import "C"

import (
	"math"
	"slices"
	"unsafe"

	"github.com/goggml/ggml"
)

var gemv = &ggml.NativeOp{
	Name: "gemv", Func: unsafe.Pointer(C.kern_op_gemv),
	FLOPs: func(_ shape, operands []shape) float64 {
		sum := 0.0
		for _, w := range operands[1:] {
			sum += 2 * elements(w) * float64(operands[0][1])
		}
		return sum
	},
}

// GEMV multiplies matrices with few columns, as in decoding:
//
//	X [k, n, p, q], F32, W [k, mᵢ, p, q] → [Σ mᵢ, n, p, q], F32
//
// The matrices have any float or quantised types, and their products are concatenated in ne0: for
// small matrices one op takes less time than several. All operands are contiguous.
//
// X is quantised to the type that W's dot product takes, exactly as in [ggml.Context.MulMat]; the
// difference is software prefetch of W, up to three times as fast if W is not in a cache. Use it
// for up to about eight columns; MulMat is faster for more. Sums are in MulMat's order, except for
// types with [HasBatchedGEMV], for which it is faster than [GEMM] up to about thirty columns.
//
// It is one op of the CPU backend for every eight matrices, and its results do not depend on the
// number of threads. If the CPU plugin does not export its dot products, it is composed of MulMat
// and Concat. It has no backward for [ggml.Graph.Backward].
func GEMV(c *ggml.Context, x *ggml.Tensor, w ...*ggml.Tensor) *ggml.Tensor {
	var y *ggml.Tensor
	for part := range slices.Chunk(w, ggml.MaxOperands-1) {
		z := buildGEMV(c, x, part)
		if y != nil {
			z = c.Concat(y, z, 0)
		}
		y = z
	}
	if y == nil {
		return buildGEMV(c, x, nil)
	}
	return y
}

// HasBatchedGEMV reports whether [GEMV] multiplies a row of the type by several columns at once, so
// that four take at most three times as long as one: F16, Q8_0, Q4_0, Q4_K, Q5_K and Q6_K on processors with AVX2. With
// AVX512-VNNI four columns of a quantised type take little longer than one. Of other types the time is proportional to the
// columns. ONEDNN_MAX_CPU_ISA limits the instructions. With AVX512-VNNI the products of a quantised row are the same among one to seven columns, and among
// eight and more; others are the same among any number.
func HasBatchedGEMV(t ggml.Type) bool {
	loadPlugin()
	return bool(C.kern_gemv_batched(C.enum_ggml_type(t)))
}

func buildGEMV(c *ggml.Context, x *ggml.Tensor, w []*ggml.Tensor) *ggml.Tensor {
	loadPlugin()
	return c.BuildOp(gemv.Name, append([]*ggml.Tensor{x}, w...), func(b *ggml.OpBuilder) *ggml.Tensor {
		b.Require(len(w) > 0, "there is no matrix to multiply")
		b.RequireType("X", x, ggml.F32)
		b.RequireContiguous("X", x)
		rows := int64(0)
		for _, w := range w {
			requireGEMV(b, w, x)
			rows += w.Dim(1)
		}
		switch {
		case !b.OK():
			return nil
		case slices.ContainsFunc(w, hasNoDot):
			return b.Compose(func() *ggml.Tensor { return mulMats(c, x, w) })
		}
		return b.Native(gemv, nil, ggml.F32, rows, x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

// requireGEMV checks one of the matrices that multiply X.
func requireGEMV(b *ggml.OpBuilder, w, x *ggml.Tensor) {
	requireNumeric(b, "W", w)
	b.RequireContiguous("W", w)
	b.Require(w.Dim(0) == x.Dim(0), "ne0 must be equal: W has %d, X has %d", w.Dim(0), x.Dim(0))
	b.Require(w.Dim(2) == x.Dim(2) && w.Dim(3) == x.Dim(3), "ne2 and ne3 must be equal")
	b.Require(w.Dim(0) <= math.MaxInt32, "ne0 is above %d", math.MaxInt32)
}

// hasNoDot reports whether the CPU plugin exports no dot product for the matrix's type.
func hasNoDot(w *ggml.Tensor) bool { return !bool(C.kern_gemv_takes(C.enum_ggml_type(w.Type()))) }
