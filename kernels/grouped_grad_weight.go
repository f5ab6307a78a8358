package kernels

// #include "grouped_gemm.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var accumulateGroupedGradWeight = &ggml.NativeOp{
	Name: "accumulate_grouped_grad_weight", Func: unsafe.Pointer(C.kern_op_accumulate_grouped_grad_weight),
	FLOPs: func(dw shape, x []shape) float64 { return 2 * float64(dw[0]) * elements(x[2]) },
}

// AccumulateGroupedGradWeight adds the gradient of W in [GroupedGEMM] to dW, F32, in place, given X
// and the gradient of the result, and returns a view of it:
//
//	dW [k, m, experts], X [k, used, n] or [k, 1, n], dY [m, used, n], ids [used, n] (I32) → dW_id + X·dYᵀ
//
// X and dY are both F32 or both BF16. A column with an invalid index adds nothing. All operands
// except ids are contiguous. It has no backward.
func AccumulateGroupedGradWeight(c *ggml.Context, dw, x, dy, ids *ggml.Tensor) *ggml.Tensor {
	op := accumulateGroupedGradWeight
	return c.BuildOp(op.Name, []*ggml.Tensor{dw, x, dy, ids}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLibrary(b)
		b.RequireType("dW", dw, ggml.F32)
		b.RequireContiguous("dW", dw)
		for _, o := range []struct {
			what string
			x    *ggml.Tensor
		}{{"X", x}, {"dY", dy}} {
			requireFactor(b, o.what, o.x)
			requireGrouped(b, o.what, dw, o.x, ids)
		}
		b.Require(x.Type() == dy.Type(), "the types must be equal: X is %v, dY is %v", x.Type(), dy.Type())
		want := shape{x.Dim(0), dy.Dim(0), dw.Dim(2), 1}
		b.Require(shapeOf(dw) == want, "the gradient has the shape %v", want)
		b.Require(dy.Dim(1) == ids.Dim(0), "ne1 of dY must be ne0 of ids: they are %d and %d", dy.Dim(1), ids.Dim(0))
		b.Require(x.Dim(1) == ids.Dim(0) || x.Dim(1) == 1, "ne1 of X must be ne0 of ids: they are %d and %d", x.Dim(1), ids.Dim(0))
		b.RequireNoOverlap(dw, x, dy, ids)
		requireChunks(b, float64(dw.Dim(2))*(float64(dw.Dim(0))/256+1)*(float64(dw.Dim(1))/512+1))
		switch {
		case !b.OK():
			return nil
		case !hasLibrary():
			return b.Compose(func() *ggml.Tensor { return spreadGradWeight(c, dw, x, dy, ids) })
		}
		return b.NativeInPlace(op, nil)
	})
}

// spreadGradWeight multiplies X with the columns of dY spread over the rows of all experts, some
// columns at a time.
func spreadGradWeight(c *ggml.Context, dw, x, dy, ids *ggml.Tensor) *ggml.Tensor {
	const most = 1 << 24 // elements
	k, m, experts, used, slots := x.Dim(0), dy.Dim(0), dw.Dim(2), ids.Dim(0), ids.NumElements()
	if x.Dim(1) < used {
		x = c.Repeat(x, k, used, x.Dim(2))
	}
	x, dy, ids = c.Reshape(x, k, slots), c.Reshape(dy, m, 1, slots), c.Reshape(c.Cont(ids), 1, slots)
	sum := c.Reshape(dw, k, m*experts)
	size := max(1, most/(m*experts))
	for from := int64(0); from < slots; from += size {
		n := min(size, slots-from)
		part := c.View(dy, []int64{m, 1, n}, []int64{dy.Stride(1), dy.Stride(2)}, from*dy.Stride(2))
		chosen := c.View(ids, []int64{1, n}, []int64{ids.Stride(1)}, from*ids.Stride(1))
		spread := c.SetRows(c.Fill(c.Repeat(part, m, experts, n), 0), part, chosen)
		some := c.View(x, []int64{k, n}, []int64{x.Stride(1)}, from*x.Stride(1))
		sum = c.AddInPlace(sum, c.OutProd(some, c.Reshape(spread, m*experts, n)))
	}
	return c.Reshape(sum, k, m, experts)
}
