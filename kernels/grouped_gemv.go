package kernels

// #include "gemv.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var groupedGEMV = &ggml.NativeOp{Name: "grouped_gemv", Func: unsafe.Pointer(C.kern_op_grouped_gemv), FLOPs: groupedFLOPs(0)}

// GroupedGEMV is [GroupedGEMM] with few columns, as in decoding:
//
//	W [k, m, experts], X [k, used, n] or [k, 1, n], F32, ids [used, n] (I32) → W_idᵀ·X [m, used, n], F32
//
// It reads each selected expert of W once. Types, prefetch and sums are as in [GEMV]. Use it for up
// to about four columns per expert; GroupedGEMM is faster for more. An invalid index makes a column
// of NaN. All operands except ids are contiguous.
//
// It is one op of the CPU backend, and its results do not depend on the number of threads. If the
// CPU plugin does not export its dot products, it is MulMatID. It has no backward for
// [ggml.Graph.Backward].
func GroupedGEMV(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor {
	loadPlugin()
	return c.BuildOp(groupedGEMV.Name, []*ggml.Tensor{w, x, ids}, func(b *ggml.OpBuilder) *ggml.Tensor {
		b.RequireType("X", x, ggml.F32)
		requireGrouped(b, "X", w, x, ids)
		b.Require(w.Dim(0) == x.Dim(0), "ne0 must be equal: W has %d, X has %d", w.Dim(0), x.Dim(0))
		b.Require(x.Dim(1) == ids.Dim(0) || x.Dim(1) == 1, "ne1 of X must be ne0 of ids: they are %d and %d", x.Dim(1), ids.Dim(0))
		switch {
		case !b.OK():
			return nil
		case hasNoDot(w):
			return b.Compose(func() *ggml.Tensor { return c.MulMatID(w, x, ids) })
		}
		return b.Native(groupedGEMV, nil, ggml.F32, w.Dim(1), ids.Dim(0), ids.Dim(1))
	})
}
