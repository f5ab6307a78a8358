package nn

import "github.com/goggml/ggml"

// CrossEntropyOperands are logits [vocab, n] with the labels, I32, and the weights of the losses, F32.
type CrossEntropyOperands struct {
	Logits          *ggml.Tensor
	Labels, Weights TokenInput
}

// A TokenInput is an input of a number for each token of a chunk [1, n]: one of its own, or where a kernel
// asks for a part of one that chunks share. A device waits for each input that it copies.
type TokenInput func(shared bool) *ggml.Tensor

// Losses are those of tokens [n], with what makes the gradient of the logits in Σ weights · losses, which it may
// overwrite.
type Losses struct {
	Y    *ggml.Tensor
	Grad func() *ggml.Tensor
}

// CrossEntropy is −log softmax(logits)[label] of each token.
var CrossEntropy = &Op[CrossEntropyOperands, Losses]{plainCrossEntropy}

// plainCrossEntropy is log Σ exp(logit) less the label's logit, which stays exact however small
// the label's probability is: the former is found by the likeliest token, whose
// probability has a logarithm.
func plainCrossEntropy(t *Tape, e CrossEntropyOperands) Losses {
	c, z, labels, vocab, n := t.C, e.Logits, e.Labels(true), e.Logits.Dim(0), e.Logits.Dim(1)
	entries := func(z *ggml.Tensor) *ggml.Tensor { return c.Reshape(z, 1, vocab, n) } // as rows, for look-ups
	top := c.Reshape(c.ArgMax(z), 1, n)
	above := c.Sub(c.GetRows(entries(z), top), c.GetRows(entries(z), labels))
	p := c.SoftMax(z)
	return Losses{c.Reshape(c.Sub(above, c.Log(c.GetRows(entries(p), top))), n), func() *ggml.Tensor {
		less := c.SetRows(entries(p), c.ScaleBias(c.GetRows(entries(p), labels), 1, -1), labels)
		return c.MulInPlace(c.Reshape(less, vocab, n), e.Weights(true))
	}}
}
