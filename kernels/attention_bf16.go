package kernels

// #include "attention_bf16.h"
// #include "gemm_bf16.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	causalAttentionBF16 = &ggml.NativeOp{
		Name: "causal_attention_bf16", Func: unsafe.Pointer(C.kern_op_causal_attention_bf16),
		FLOPs: func(_ shape, operands []shape) float64 { return 2 * causalFLOPs(operands[0]) },
	}
	causalAttentionBF16Grad = &ggml.NativeOp{
		Name: "causal_attention_bf16_grad", Func: unsafe.Pointer(C.kern_op_causal_attention_bf16_grad),
		FLOPs: func(_ shape, operands []shape) float64 { return 5 * causalFLOPs(operands[2]) },
	}
)

// HasBF16Attention reports whether [CausalAttentionBF16] is available: on a processor with AMX, or with AVX512-BF16 where
// that is faster than F32, and with the GEMM library that [HasBF16] needs.
func HasBF16Attention() bool { return HasBF16() && bool(C.kern_has_gemm_bf16()) }

// CausalAttentionBF16 is [CausalAttention] with the operands of products rounded to BF16: Q, K, V and the weights. Sums
// and the softmax are in F32. It is two to three times as fast, and an error if [HasBF16Attention] is false. Tiles of 64 keys
// that none of 64 queries sees cost nothing.
//
// It returns the result [size, heads, n, batch], and what [CausalAttentionBF16Grad] needs. The result is a view of that.
// It has no backward for [ggml.Graph.Backward].
func CausalAttentionBF16(c *ggml.Context, a Attention) (y, saved *ggml.Tensor) {
	built := false
	all, p := a.operands()
	saved = c.BuildOp(causalAttentionBF16.Name, all, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireAttentionBF16(b, a)
		if built = b.OK(); !built {
			return nil
		}
		return b.Native(causalAttentionBF16, params(p), ggml.F32, a.savedElements())
	})
	if !built {
		return saved, saved
	}
	return c.View(saved, a.Q.Shape(), nil, 0), saved
}

// CausalAttentionBF16Grad returns the gradients of Q, K, V and Sinks in [CausalAttentionBF16], given the gradient dY
// [size, heads, n, batch] of the result, F32 with contiguous rows, and the saved results. The operands of products are BF16.
// The gradients are F32 and contiguous and have the shapes of their operands; without Sinks dsinks is nil. They have no
// backward.
func CausalAttentionBF16Grad(c *ggml.Context, dy, saved *ggml.Tensor, a Attention) (dq, dk, dv, dsinks *ggml.Tensor) {
	parts := int64(0)
	operands, p := a.operands(dy, saved)
	all := c.BuildOp(causalAttentionBF16Grad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireAttentionBF16(b, a)
		requireVectors(b, "dY", dy)
		b.RequireSameShape(dy, a.Q)
		requireF32(b, "saved", saved)
		b.Require(saved.NumElements() == a.savedElements(), "saved has %d elements; CausalAttentionBF16 saves %d of these operands", saved.NumElements(), a.savedElements())
		if !b.OK() {
			return nil
		}
		parts = attentionParts(a.Q, a.K)
		p.parts = C.int32_t(parts)
		return b.Native(causalAttentionBF16Grad, params(p), ggml.F32, a.gradElements(parts))
	})
	return a.splitGrads(c, all, parts)
}

// savedElements is the result, and the logarithm of the sum of each query's exponentials.
func (a Attention) savedElements() int64 {
	return a.Q.NumElements() + a.Q.Dim(1)*a.Q.Dim(2)*a.Q.Dim(3)
}

func requireAttentionBF16(b *ggml.OpBuilder, a Attention) {
	requireAttention(b, a)
	b.Require(HasBF16Attention(), "attention in BF16 needs oneDNN and a processor with AMX or fast AVX512-BF16; use CausalAttention")
}
