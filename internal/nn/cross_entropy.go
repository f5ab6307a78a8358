package nn

import "github.com/goggml/ggml"

// CrossEntropyOperands are logits [vocab, n] with the labels, I32 [1, n], and the weights of the losses, F32 [1, n].
type CrossEntropyOperands struct {
	Logits          *ggml.Tensor
	Labels, Weights TokenInput
}

// A TokenInput returns an input with k numbers for each token of a chunk [k, n]: a view of one that all chunks share,
// or, for kernels that need it, an input of its own. Copying an input makes a device wait.
type TokenInput func(shared bool) *ggml.Tensor

// Losses are the losses Y of tokens [n]. Grad returns the gradient of the logits in Σ weights · losses; it may
// overwrite the logits.
type Losses struct {
	Y    *ggml.Tensor
	Grad func() *ggml.Tensor
}

// CrossEntropy is −log softmax(logits)[label] of each token.
var CrossEntropy = &Op[CrossEntropyOperands, Losses]{plainCrossEntropy}

// plainCrossEntropy computes log Σ exp(logit) − logit[label], which stays exact for any probability
// of the label. The first term follows from the likeliest token, whose probability is not 0:
// its logit less the logarithm of its softmax.
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
