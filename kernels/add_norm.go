package kernels

// #include "norm.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	addRMSNorm = &ggml.NativeOp{
		Name: "add_rms_norm", Func: unsafe.Pointer(C.kern_op_add_rms_norm),
		FLOPs: func(_ shape, operands []shape) float64 { return 5 * elements(operands[0]) },
	}
	addRMSNormGrad = &ggml.NativeOp{
		Name: "add_rms_norm_grad", Func: unsafe.Pointer(C.kern_op_add_rms_norm_grad),
		FLOPs: func(result shape, _ []shape) float64 { return 10 * elements(result) },
	}
)

// AddRMSNorm returns the sum of x and y [m, n, p, q], F32 with contiguous rows, and [WeightedRMSNorm] of the sum, in one
// pass through memory: what a layer adds to the residual stream, and what the next part reads. w [m] is F32 and
// contiguous. Both results are contiguous, and equal [ggml.Context.Add] and WeightedRMSNorm to the bit.
//
// It is an op of the CPU backend, and has no backward for [ggml.Graph.Backward]; [AddRMSNormGrad] returns the gradient.
func AddRMSNorm(c *ggml.Context, x, y, w *ggml.Tensor, eps float32) (sum, normed *ggml.Tensor) {
	ok := false
	both := c.BuildOp(addRMSNorm.Name, []*ggml.Tensor{x, y, w}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, x, eps)
		b.RequireType("y", y, ggml.F32)
		b.RequireContiguousRows("y", y)
		b.RequireSameShape(x, y)
		requireNormVector(b, "w", w, x)
		if ok = b.OK(); !ok {
			return nil
		}
		return b.Native(addRMSNorm, params(C.struct_kern_norm_params{eps: C.float(eps)}), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), 2*x.Dim(3))
	})
	if !ok {
		return both, both
	}
	half := func(i int64) *ggml.Tensor {
		return c.View(both, x.Shape(), nil, i*x.NumElements()*ggml.F32.BlockBytes())
	}
	return half(0), half(1)
}

// AddRMSNormGrad returns the gradient of x, which is the gradient of y too, in [AddRMSNorm], given the sum and the
// gradients dsum and dy of the sum and of its norm, which have its shape and are F32 with contiguous rows:
//
//	dx = dsum + (g − u · mean(g · u)) / rms, with g = dy · w, u = sum/rms, rms = √(mean(sum²) + eps)
//
// It equals [WeightedRMSNormGrad] and [ggml.Context.Add] to the bit, in one pass through memory. It is an op of the CPU
// backend, and has no backward.
func AddRMSNormGrad(c *ggml.Context, dsum, dy, sum, w *ggml.Tensor, eps float32) *ggml.Tensor {
	return c.BuildOp(addRMSNormGrad.Name, []*ggml.Tensor{dsum, dy, sum, w}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, sum, eps)
		requireNormVector(b, "w", w, sum)
		requireNormGrad(b, "dsum", dsum, sum)
		requireNormGrad(b, "dy", dy, sum)
		return b.Native(addRMSNormGrad, params(C.struct_kern_norm_params{eps: C.float(eps)}), ggml.F32, sum.Dim(0), sum.Dim(1), sum.Dim(2), sum.Dim(3))
	})
}
