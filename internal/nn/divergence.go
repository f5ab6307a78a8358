package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// DivergenceOperands are logits [vocab, n] beside the k most likely labels of a teacher for each token, I32 [k, n], with
// their probabilities and the total probability of all other labels, F32 [k+1, n], and the weights of the losses,
// F32 [1, n]. Beta selects the divergence, see [github.com/goggml/ggml/kernels.Divergence].
type DivergenceOperands struct {
	Logits                 *ggml.Tensor
	Labels, Probs, Weights TokenInput
	Beta                   float32
}

// Divergence is the divergence of softmax(logits) from the teacher's probabilities, of each token.
var Divergence = &Op[DivergenceOperands, Losses]{plainDivergence}

// othersAdded is added to the probability of the other labels, as the CPU's kernel does.
const othersAdded = 1e-6

// plainDivergence computes log q as the logit less the likeliest one plus the logarithm of that one's softmax, which
// is exact for any probability. With the derivative h along each q, the gradient of a logit is q · (h − Σ q · h).
func plainDivergence(t *Tape, d DivergenceOperands) Losses {
	c, z, labels, vocab, n := t.C, d.Logits, d.Labels(true), d.Logits.Dim(0), d.Logits.Dim(1)
	k, probs := labels.Dim(0), d.Probs(true)
	entries := func(z *ggml.Tensor) *ggml.Tensor { return c.Reshape(z, 1, vocab, n) } // as rows, for look-ups
	top := c.Reshape(c.ArgMax(z), 1, n)
	softmax := c.SoftMax(z)
	above := c.Sub(c.GetRows(entries(z), labels), c.GetRows(entries(z), top)) // [1, k, n]
	logQ := c.Reshape(c.Add(above, c.Log(c.GetRows(entries(softmax), top))), k, n)
	q := c.Exp(logQ)
	p := c.Cont(c.View(probs, []int64{k, n}, []int64{probs.Stride(1)}, 0))
	loss, slopes := d.terms(c, p, q, logQ)

	rest := c.Clamp(c.ScaleBias(c.SumRows(q), -1, 1), 0, 1) // [1, n]
	restP := c.ScaleBias(c.Cont(c.View(probs, []int64{1, n}, []int64{probs.Stride(1)}, k*probs.Stride(0))), 1, othersAdded)
	restQ := c.ScaleBias(rest, 1, othersAdded)
	restLoss, restSlope := d.terms(c, restP, restQ, c.Log(restQ))
	return Losses{c.Reshape(c.Add(c.SumRows(loss), restLoss), n), func() *ggml.Tensor {
		others := c.Div(restSlope, restQ)
		mean := c.Add(c.SumRows(slopes), c.Mul(rest, others))
		own := c.Sub(slopes, c.Mul(q, mean)) // [k, n]
		all := c.SetRows(entries(c.Mul(softmax, c.Sub(others, mean))), c.Reshape(own, 1, k, n), labels)
		return c.MulInPlace(c.Reshape(all, vocab, n), d.Weights(true))
	}}
}

// terms returns the terms of the loss, and q times their derivatives along q, without a constant that is equal for all
// labels.
func (d DivergenceOperands) terms(c *ggml.Context, p, q, logQ *ggml.Tensor) (loss, slope *ggml.Tensor) {
	const least = 1.17549435e-38 // of normal numbers: the logarithm of 0 times 0 is NaN
	log := func(p *ggml.Tensor) *ggml.Tensor { return c.Log(c.Clamp(p, least, math.MaxFloat32)) }
	switch d.Beta {
	case 0:
		return c.Mul(p, c.Sub(log(p), logQ)), c.Neg(p)
	case 1:
		loss = c.Mul(q, c.Sub(logQ, log(p)))
		return loss, loss
	}
	logM := log(c.Add(c.Scale(p, d.Beta), c.Scale(q, 1-d.Beta)))
	slope = c.Scale(c.Mul(q, c.Sub(logQ, logM)), 1-d.Beta)
	return c.Add(slope, c.Scale(c.Mul(p, c.Sub(log(p), logM)), d.Beta)), slope
}
