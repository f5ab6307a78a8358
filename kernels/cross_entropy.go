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

// SoftmaxCrossEntropy returns the loss of each row of logits [vocab, n], F32 and contiguous, for
// labels I32 of n elements, and the normalisers [n, 2] that the gradient needs:
//
//	losses[i] = max + log Σ exp(logits − max) − logits[label]
//	normalisers[i] = max(logits), Σ exp(logits − max)
//
// A loss is exact even for the smallest probability. It is NaN if the label is not in the
// vocabulary.
//
// Compared with [ggml.Context.SoftMax] and a lookup of the label's probability, it reads the logits
// once and needs no memory of their size. Threads share the rows, and the result does not depend on
// their number. It is an op of the CPU backend, and has no backward for [ggml.Graph.Backward];
// [SoftmaxCrossEntropyGradInPlace] returns the gradient.
func SoftmaxCrossEntropy(c *ggml.Context, logits, labels *ggml.Tensor) (losses, normalisers *ggml.Tensor) {
	n := int64(0)
	all := c.BuildOp(crossEntropy.Name, []*ggml.Tensor{logits, labels}, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLogits(b, logits, labels)
		if b.OK() {
			n = rows(logits)
		}
		return b.Native(crossEntropy, nil, ggml.F32, n, 3)
	})
	if n == 0 {
		return all, all
	}
	return c.View(all, []int64{n}, nil, 0), c.View(all, []int64{n, 2}, nil, all.Stride(1))
}

// SoftmaxCrossEntropyGradInPlace replaces logits [vocab, n] by the gradient of Σ weights · losses,
// and returns a view of it. Labels and normalisers are as in [SoftmaxCrossEntropy]; weights are F32
// of n elements:
//
//	dlogits = weight · (softmax(logits) − onehot(label))
//
// It is an op of the CPU backend, and has no backward.
func SoftmaxCrossEntropyGradInPlace(c *ggml.Context, logits, labels, weights, normalisers *ggml.Tensor) *ggml.Tensor {
	operands := []*ggml.Tensor{logits, labels, weights, normalisers}
	return c.BuildOp(crossEntropyGrad.Name, operands, func(b *ggml.OpBuilder) *ggml.Tensor {
		requireLogits(b, logits, labels)
		requireF32(b, "weights", weights)
		requireF32(b, "normalisers", normalisers)
		b.Require(weights.NumElements() == rows(logits), "weights must have %d elements, one for each row of logits; there are %d", rows(logits), weights.NumElements())
		b.Require(normalisers.NumElements() == 2*rows(logits), "normalisers must have %d elements, two for each row of logits; there are %d", 2*rows(logits), normalisers.NumElements())
		b.RequireNoOverlap(logits, labels, weights, normalisers)
		return b.NativeInPlace(crossEntropyGrad, nil)
	})
}

func requireLogits(b *ggml.OpBuilder, logits, labels *ggml.Tensor) {
	requireF32(b, "logits", logits)
	b.RequireType("labels", labels, ggml.I32)
	b.RequireContiguous("labels", labels)
	b.Require(labels.NumElements() == rows(logits), "labels must have %d elements, one for each row of logits; there are %d", rows(logits), labels.NumElements())
}

func rows(x *ggml.Tensor) int64 { return x.NumElements() / x.Dim(0) }
