package kernels

// #include "norm.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	rmsNorm = &ggml.NativeOp{
		Name: "weighted_rms_norm", Func: unsafe.Pointer(C.kern_op_weighted_rms_norm),
		FLOPs: func(result shape, _ []shape) float64 { return 4 * elements(result) },
	}
	rmsNormGrad = &ggml.NativeOp{
		Name: "weighted_rms_norm_grad", Func: unsafe.Pointer(C.kern_op_weighted_rms_norm_grad),
		FLOPs: func(result shape, _ []shape) float64 { return 9 * elements(result) },
	}
)

// WeightedRMSNorm returns w · x / √(mean(x²) + eps) over the rows of x [m, n, p, q] (arXiv
// 1910.07467), F32 with contiguous rows, for w [m], F32 and contiguous. The result is
// contiguous.
//
// It is [ggml.Context.RMSNorm] and [ggml.Context.Mul] in one, vectorised. Rows are shared
// between threads, and the result does not depend on their number. It is an op of the CPU
// backend, and has no backward for [ggml.Graph.Backward]; the gradient is [WeightedRMSNormGrad].
func WeightedRMSNorm(c *ggml.Context, x, w *ggml.Tensor, eps float32) *ggml.Tensor {
	return c.BuildOp(rmsNorm.Name, []*ggml.Tensor{x, w}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, x, w, eps)
		return b.Native(rmsNorm, params(C.struct_kern_norm_params{eps: C.float(eps)}), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

// WeightedRMSNormGrad returns the gradient of x in [WeightedRMSNorm], given that of the result, dy, of the
// shape of x and F32 with contiguous rows:
//
//	dx = (g − u · mean(g · u)) / rms, with g = dy · w, u = x/rms, rms = √(mean(x²) + eps)
//
// It is [ggml.Context.RMSNormBack] of dy · w. It is an op of the CPU backend, and has no
// backward.
func WeightedRMSNormGrad(c *ggml.Context, dy, x, w *ggml.Tensor, eps float32) *ggml.Tensor {
	return c.BuildOp(rmsNormGrad.Name, []*ggml.Tensor{dy, x, w}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, x, w, eps)
		b.RequireType("dy", dy, ggml.F32)
		b.RequireContiguousRows("dy", dy)
		b.RequireSameShape(dy, x)
		return b.Native(rmsNormGrad, params(C.struct_kern_norm_params{eps: C.float(eps)}), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

func requireNorm(b *ggml.OpBuilder, x, w *ggml.Tensor, eps float32) {
	b.RequireType("x", x, ggml.F32)
	b.RequireContiguousRows("x", x)
	requireF32(b, "w", w)
	b.Require(w.NumElements() == x.Dim(0), "w must have %d elements, as the rows of x; there are %d", x.Dim(0), w.NumElements())
	b.Require(eps >= 0 && eps <= math.MaxFloat32, "eps is %v; it must not be negative, and finite", eps)
}
