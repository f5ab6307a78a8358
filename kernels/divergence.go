package kernels

// #include "divergence.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	divergence = &ggml.NativeOp{
		Name: "divergence", Func: unsafe.Pointer(C.kern_op_divergence),
		FLOPs: func(_ shape, operands []shape) float64 { return 2 * elements(operands[0]) },
	}
	divergenceGrad = &ggml.NativeOp{Name: "divergence_grad", Func: unsafe.Pointer(C.kern_op_divergence_grad)}
)

// Divergence are the operands of [SoftmaxDivergence]: logits beside the k most likely labels of a teacher for each
// row.
type Divergence struct {
	Logits *ggml.Tensor // [vocab, n], F32, contiguous
	Labels *ggml.Tensor // I32, contiguous: k·n elements, the k of a row all different
	// Probs are F32, contiguous: (k+1)·n elements, the probability of each label of a row, and of all others together.
	Probs *ggml.Tensor
	// Beta selects the divergence, as in TRL's GKD trainer: 0 is the forward KL divergence from the teacher p, Σ p · log(p/q);
	// 1 the reverse one, Σ q · log(q/p); between, the generalised Jensen-Shannon divergence (arXiv 2306.13649),
	// β · Σ p · log(p/m) + (1 − β) · Σ q · log(q/m), with m = β · p + (1 − β) · q.
	Beta float32
}

// SoftmaxDivergence returns the divergence [n] of the probabilities q = softmax(logits) from a teacher's p, and the
// slopes [k+3, n] that the gradient needs. The sums have k+1 terms: all labels without a probability of their own count
// as one, whose probability is 1 less the sum of the k others. So the divergence is at most the one over the whole
// vocabulary, and it is 0 only if q equals p for each of the k labels. 10⁻⁶ is added to the last term's p and q.
//
// A loss is NaN if a label is not in the vocabulary. Threads share the rows, and the result does not depend on their
// number. It is an op of the CPU backend, and has no backward for [ggml.Graph.Backward];
// [SoftmaxDivergenceGradInPlace] returns the gradient.
func SoftmaxDivergence(c *ggml.Context, x Divergence) (losses, slopes *ggml.Tensor) {
	n, k := int64(0), int64(0)
	all := c.BuildOp(divergence.Name, []*ggml.Tensor{x.Logits, x.Labels, x.Probs}, func(b *ggml.OpBuilder) *ggml.Tensor {
		k = requireTaught(b, x.Logits, x.Labels)
		requireF32(b, "probs", x.Probs)
		b.Require(x.Beta >= 0 && x.Beta <= 1, "beta is %v; it must be from 0 to 1", x.Beta)
		if !b.OK() {
			return nil
		}
		b.Require(x.Probs.NumElements() == x.Labels.NumElements()+rows(x.Logits), "probs must have %d elements, one for each label and one for each of the %d rows of logits; there are %d", x.Labels.NumElements()+rows(x.Logits), rows(x.Logits), x.Probs.NumElements())
		n = rows(x.Logits)
		return b.Native(divergence, params(C.struct_kern_divergence_params{beta: C.float(x.Beta)}), ggml.F32, n*(k+4))
	})
	if c.Err() != nil {
		return all, all
	}
	return c.View(all, []int64{n}, nil, 0), c.View(all, []int64{k + 3, n}, nil, n*all.Stride(0))
}

// SoftmaxDivergenceGradInPlace replaces the logits [vocab, n] by the gradient of Σ weights · losses, and returns a view
// of it. labels and slopes are as in [SoftmaxDivergence]; weights are F32 of n elements. With the derivative h along
// each probability q of the divergence:
//
//	dlogits = weight · q · (h − Σ q · h)
//
// It is an op of the CPU backend, and has no backward.
func SoftmaxDivergenceGradInPlace(c *ggml.Context, logits, labels, weights, slopes *ggml.Tensor) *ggml.Tensor {
	operands := []*ggml.Tensor{logits, labels, weights, slopes}
	return c.BuildOp(divergenceGrad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		k := requireTaught(b, logits, labels)
		requireF32(b, "weights", weights)
		requireF32(b, "slopes", slopes)
		if !b.OK() {
			return nil
		}
		n := rows(logits)
		b.Require(weights.NumElements() == n, "weights must have %d elements, one for each row of logits; there are %d", n, weights.NumElements())
		b.Require(slopes.NumElements() == n*(k+3), "slopes must have %d elements, %d for each row of logits; there are %d", n*(k+3), k+3, slopes.NumElements())
		b.RequireNoOverlap(operands[0], operands[1:]...)
		return b.NativeInPlace(divergenceGrad, nil)
	})
}

// requireTaught checks logits with their labels, and returns the number of labels of a row.
func requireTaught(b *ggml.OpBuilder, logits, labels *ggml.Tensor) (k int64) {
	requireF32(b, "logits", logits)
	b.RequireType("labels", labels, ggml.I32)
	b.RequireContiguous("labels", labels)
	if !b.OK() {
		return 0
	}
	n := rows(logits)
	b.Require(n > 0 && labels.NumElements()%n == 0, "labels must be equally many for each of the %d rows of logits; there are %d", n, labels.NumElements())
	return labels.NumElements() / max(1, n)
}
