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
	layerNorm = &ggml.NativeOp{
		Name: "layer_norm", Func: unsafe.Pointer(C.kern_op_layer_norm),
		FLOPs: func(result shape, _ []shape) float64 { return 7 * elements(result) },
	}
	layerNormGrad = &ggml.NativeOp{
		Name: "layer_norm_grad", Func: unsafe.Pointer(C.kern_op_layer_norm_grad),
		FLOPs: func(result shape, _ []shape) float64 { return 14 * elements(result) },
	}
)

// WeightedRMSNorm returns w · x / √(mean(x²) + eps) over the rows of x [m, n, p, q] (arXiv
// 1910.07467), F32 with contiguous rows, for w [m], F32 and contiguous, or nil if absent. The result is contiguous.
//
// It is [ggml.Context.RMSNorm] and [ggml.Context.Mul] in one, vectorised. Threads share the rows,
// and the result does not depend on their number. It is an op of the CPU backend, and has no
// backward for [ggml.Graph.Backward]; [WeightedRMSNormGrad] returns the gradient.
func WeightedRMSNorm(c *ggml.Context, x, w *ggml.Tensor, eps float32) *ggml.Tensor {
	o := operands{x}
	p := C.struct_kern_norm_params{eps: C.float(eps), weight: o.addOptional(w)}
	return c.BuildOp(rmsNorm.Name, o, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, x, eps)
		requireNormVector(b, "w", w, x)
		return b.Native(rmsNorm, params(p), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

// WeightedRMSNormGrad returns the gradient of x in [WeightedRMSNorm], given the gradient dy of the result,
// which has the shape of x and is F32 with contiguous rows:
//
//	dx = (g − u · mean(g · u)) / rms, with g = dy · w, u = x/rms, rms = √(mean(x²) + eps)
//
// It computes [ggml.Context.RMSNormBack] of dy · w. It is an op of the CPU backend, and has no backward.
func WeightedRMSNormGrad(c *ggml.Context, dy, x, w *ggml.Tensor, eps float32) *ggml.Tensor {
	o := operands{dy, x}
	p := C.struct_kern_norm_params{eps: C.float(eps), weight: o.addOptional(w)}
	return c.BuildOp(rmsNormGrad.Name, o, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, x, eps)
		requireNormVector(b, "w", w, x)
		requireNormGrad(b, "dy", dy, x)
		return b.Native(rmsNormGrad, params(p), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

// LayerNorm returns w · (x − mean(x)) / √(variance(x) + eps) + b over the rows of x [m, n, p, q]
// (arXiv 1607.06450), F32 with contiguous rows, for w and b [m], F32 and contiguous, or nil if
// absent. The result is contiguous.
//
// It is [ggml.Context.Norm], [ggml.Context.Mul] and [ggml.Context.Add] in one. Threads share the
// rows, and the result does not depend on their number. It is an op of the CPU backend, and has no
// backward for [ggml.Graph.Backward]; [LayerNormGrad] returns the gradient.
func LayerNorm(c *ggml.Context, x, w, b *ggml.Tensor, eps float32) *ggml.Tensor {
	var o operands
	p := C.struct_kern_norm_params{eps: C.float(eps)}
	o.add(x)
	p.weight, p.bias = o.addOptional(w), o.addOptional(b)
	return c.BuildOp(layerNorm.Name, o, func(build *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(build, x, eps)
		requireNormVector(build, "w", w, x)
		requireNormVector(build, "b", b, x)
		return build.Native(layerNorm, params(p), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

// LayerNormGrad returns the gradient of x in [LayerNorm], given the gradient dy of the result, which has
// the shape of x and is F32 with contiguous rows:
//
//	dx = (g − mean(g) − u · mean(g · u)) / σ, with g = dy · w, u = (x − mean(x))/σ, σ = √(variance(x) + eps)
//
// It is an op of the CPU backend, and has no backward.
func LayerNormGrad(c *ggml.Context, dy, x, w *ggml.Tensor, eps float32) *ggml.Tensor {
	var o operands
	p := C.struct_kern_norm_params{eps: C.float(eps)}
	o.add(dy, x)
	p.weight = o.addOptional(w)
	return c.BuildOp(layerNormGrad.Name, o, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireNorm(b, x, eps)
		requireNormVector(b, "w", w, x)
		requireNormGrad(b, "dy", dy, x)
		return b.Native(layerNormGrad, params(p), ggml.F32, x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3))
	})
}

func requireNorm(b *ggml.OpBuilder, x *ggml.Tensor, eps float32) {
	b.RequireType("x", x, ggml.F32)
	b.RequireContiguousRows("x", x)
	b.Require(eps >= 0 && eps <= math.MaxFloat32, "eps is %v; it must not be negative, and finite", eps)
}

// requireNormVector requires that an optional vector has one element per column of x.
func requireNormVector(b *ggml.OpBuilder, what string, v, x *ggml.Tensor) {
	if v == nil {
		return
	}
	requireF32(b, what, v)
	b.Require(v.NumElements() == x.Dim(0), "%s must have %d elements, as the rows of x; there are %d", what, x.Dim(0), v.NumElements())
}

func requireNormGrad(b *ggml.OpBuilder, what string, d, x *ggml.Tensor) {
	b.RequireType(what, d, ggml.F32)
	b.RequireContiguousRows(what, d)
	b.RequireSameShape(d, x)
}
