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

// CrossEntropy are the operands of [SoftmaxCrossEntropy]: logits with a label for each row.
type CrossEntropy struct {
	Logits *ggml.Tensor // [vocab, n], F32, contiguous
	Labels *ggml.Tensor // I32, contiguous, n elements
}

// SoftmaxCrossEntropy returns the loss of each row of logits [vocab, n] for its label, and the
// normalisers [n, 2] that the gradient needs:
//
//	losses[i] = max + log Σ exp(logits − max) − logits[label]
//	normalisers[i] = max(logits), Σ exp(logits − max)
//
// A loss is exact even for the smallest probability. It is NaN if the label is not in the vocabulary.
//
// Compared with [ggml.Context.SoftMax] and a lookup of the labels' probabilities, it reads the logits
// once and needs no memory of their size. Threads share the rows, and the result does not depend on
// their number. It is an op of the CPU backend, and has no backward for [ggml.Graph.Backward];
// [SoftmaxCrossEntropyGradInPlace] returns the gradient.
func SoftmaxCrossEntropy(c *ggml.Context, x CrossEntropy) (losses, normalisers *ggml.Tensor) {
	return withNormalisers(c, x.Logits, c.BuildOp(crossEntropy.Name, []*ggml.Tensor{x.Logits, x.Labels}, func(b *ggml.OpBuilder) *ggml.Tensor {
		x.require(b)
		if !b.OK() {
			return nil
		}
		return b.Native(crossEntropy, nil, ggml.F32, rows(x.Logits), 3)
	}))
}

// withNormalisers splits the result [n, 3] of an op on the softmax of logits.
func withNormalisers(c *ggml.Context, logits, all *ggml.Tensor) (losses, normalisers *ggml.Tensor) {
	if c.Err() != nil {
		return all, all
	}
	n := rows(logits)
	return c.View(all, []int64{n}, nil, 0), c.View(all, []int64{n, 2}, nil, all.Stride(1))
}

// SoftmaxCrossEntropyGradInPlace replaces the logits [vocab, n] by the gradient of Σ weights · losses,
// and returns a view of it. The normalisers are from [SoftmaxCrossEntropy]; weights are F32 of n
// elements:
//
//	dlogits = weight · (softmax(logits) − onehot(label))
//
// It is an op of the CPU backend, and has no backward.
func SoftmaxCrossEntropyGradInPlace(c *ggml.Context, x CrossEntropy, weights, normalisers *ggml.Tensor) *ggml.Tensor {
	operands := []*ggml.Tensor{x.Logits, x.Labels, weights, normalisers}
	return c.BuildOp(crossEntropyGrad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		x.require(b)
		requireWeighted(b, x.Logits, weights, normalisers)
		b.RequireNoOverlap(operands[0], operands[1:]...)
		return b.NativeInPlace(crossEntropyGrad, nil)
	})
}

// requireWeighted checks the operands that gradients of losses with normalisers have in common.
func requireWeighted(b *ggml.OpBuilder, logits, weights, normalisers *ggml.Tensor) {
	requireF32(b, "weights", weights)
	requireF32(b, "normalisers", normalisers)
	b.Require(weights.NumElements() == rows(logits), "weights must have %d elements, one for each row of logits; there are %d", rows(logits), weights.NumElements())
	b.Require(normalisers.NumElements() == 2*rows(logits), "normalisers must have %d elements, two for each row of logits; there are %d", 2*rows(logits), normalisers.NumElements())
}

func (x CrossEntropy) require(b *ggml.OpBuilder) {
	requireF32(b, "logits", x.Logits)
	b.RequireType("labels", x.Labels, ggml.I32)
	b.RequireContiguous("labels", x.Labels)
	b.Require(x.Labels.NumElements() == rows(x.Logits), "labels must have %d elements, one for each row of logits; there are %d", rows(x.Logits), x.Labels.NumElements())
}

func rows(x *ggml.Tensor) int64 { return x.NumElements() / x.Dim(0) }
