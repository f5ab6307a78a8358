package kernels

// #include "cross_entropy.h"
import "C"

import (
	"unsafe"

	"github.com/goggml/ggml"
)

var (
	crossEntropy = &ggml.NativeOp{
		Name: "cross_entropy", Func: unsafe.Pointer(C.kern_op_cross_entropy),
		FLOPs: func(_ shape, operands []shape) float64 { return 2 * elements(operands[0]) },
	}
	crossEntropyGrad = &ggml.NativeOp{Name: "cross_entropy_grad", Func: unsafe.Pointer(C.kern_op_cross_entropy_grad)}
)

// CrossEntropy are the operands of [SoftmaxCrossEntropy]: logits with one label for each row, or with
// several, such as the most probable tokens of a teacher.
type CrossEntropy struct {
	Logits *ggml.Tensor // [vocab, n], F32, contiguous
	Labels *ggml.Tensor // I32, contiguous, n elements; with Probs k·n, k of each row, all different
	Probs  *ggml.Tensor // F32, contiguous: the probability of each label; nil means 1
}

// SoftmaxCrossEntropy returns the loss of each row of logits [vocab, n] for its labels, and the
// normalisers [n, 2] that the gradient needs:
//
//	losses[i] = Σ prob · (max + log Σ exp(logits − max) − logits[label])
//	normalisers[i] = max(logits), Σ exp(logits − max)
//
// A loss is exact even for the smallest probability. It is NaN if a label is not in the vocabulary,
// unless its prob is 0.
//
// Compared with [ggml.Context.SoftMax] and a lookup of the labels' probabilities, it reads the logits
// once and needs no memory of their size. Threads share the rows, and the result does not depend on
// their number. It is an op of the CPU backend, and has no backward for [ggml.Graph.Backward];
// [SoftmaxCrossEntropyGradInPlace] returns the gradient.
func SoftmaxCrossEntropy(c *ggml.Context, x CrossEntropy) (losses, normalisers *ggml.Tensor) {
	n := int64(0)
	all := c.BuildOp(crossEntropy.Name, x.operands(), func(b *ggml.OpBuilder) *ggml.Tensor {
		x.require(b)
		if b.OK() {
			n = rows(x.Logits)
		}
		return b.Native(crossEntropy, nil, ggml.F32, n, 3)
	})
	if n == 0 {
		return all, all
	}
	return c.View(all, []int64{n}, nil, 0), c.View(all, []int64{n, 2}, nil, all.Stride(1))
}

// SoftmaxCrossEntropyGradInPlace replaces the logits [vocab, n] by the gradient of Σ weights · losses,
// and returns a view of it. The normalisers are those of [SoftmaxCrossEntropy]; weights are F32 of n
// elements:
//
//	dlogits = weight · Σ prob · (softmax(logits) − onehot(label))
//
// It is an op of the CPU backend, and has no backward.
func SoftmaxCrossEntropyGradInPlace(c *ggml.Context, x CrossEntropy, weights, normalisers *ggml.Tensor) *ggml.Tensor {
	operands := x.operands(weights, normalisers)
	return c.BuildOp(crossEntropyGrad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		x.require(b)
		requireF32(b, "weights", weights)
		requireF32(b, "normalisers", normalisers)
		b.Require(weights.NumElements() == rows(x.Logits), "weights must have %d elements, one for each row of logits; there are %d", rows(x.Logits), weights.NumElements())
		b.Require(normalisers.NumElements() == 2*rows(x.Logits), "normalisers must have %d elements, two for each row of logits; there are %d", 2*rows(x.Logits), normalisers.NumElements())
		b.RequireNoOverlap(operands[0], operands[1:]...)
		return b.NativeInPlace(crossEntropyGrad, nil)
	})
}

// operands returns the operands present, with others before Probs.
func (x CrossEntropy) operands(others ...*ggml.Tensor) []*ggml.Tensor {
	all := operands{x.Logits, x.Labels}
	all.add(others...)
	all.addOptional(x.Probs)
	return all
}

func (x CrossEntropy) require(b *ggml.OpBuilder) {
	requireF32(b, "logits", x.Logits)
	b.RequireType("labels", x.Labels, ggml.I32)
	b.RequireContiguous("labels", x.Labels)
	n := rows(x.Logits)
	if x.Probs == nil {
		b.Require(x.Labels.NumElements() == n, "labels must have %d elements, one for each row of logits; there are %d", n, x.Labels.NumElements())
		return
	}
	requireF32(b, "probs", x.Probs)
	b.Require(n > 0 && x.Labels.NumElements()%n == 0, "labels must be equally many for each of the %d rows of logits; there are %d", n, x.Labels.NumElements())
	b.Require(x.Probs.NumElements() == x.Labels.NumElements(), "probs must have %d elements, one for each label; there are %d", x.Labels.NumElements(), x.Probs.NumElements())
}

func rows(x *ggml.Tensor) int64 { return x.NumElements() / x.Dim(0) }
