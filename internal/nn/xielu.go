package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// XIELU is the activation of arXiv 2411.13010, see [ggml.Context.XIELU].
func (t *Tape) XIELU(x *Value, p ggml.XIELUParams) *Value {
	x = t.Contiguous(x)
	c := t.C
	softplus := func(x float32) float32 { return float32(math.Log1p(math.Exp(float64(x)))) }
	positive, negative := softplus(p.AlphaP), p.Beta+softplus(p.AlphaN)
	return t.unary(x, c.XIELU(x.T, p), func() *ggml.Tensor {
		// The slope is 2·positive·x + beta above 0, else negative·(eˣ − 1) + beta, with eˣ = 0 between eps and 0.
		isNegative := c.Step(c.Neg(x.T))
		grows := c.Mul(c.Exp(c.Clamp(x.T, -math.MaxFloat32, min(p.Eps, 0))), c.Step(c.ScaleBias(x.T, -1, min(p.Eps, 0))))
		below := c.Scale(c.Sub(grows, isNegative), negative)
		return c.Add(below, c.ScaleBias(c.Relu(x.T), 2*positive, p.Beta))
	})
}
