package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// Dots returns the products of the vectors of x and y, [m, …] → [1, …].
func (t *Tape) Dots(x, y *Value) *Value {
	c := t.C
	return t.Op(c.SumRows(c.Mul(x.T, y.T)), func(d *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.Mul(y.T, d), c.Mul(x.T, d)}
	}, x, y)
}

// SignedSqrt returns sign(x)·√max(|x|, least).
func (t *Tape) SignedSqrt(x *Value, least float32) *Value {
	x = t.Contiguous(x)
	c := t.C
	size := c.Abs(x.T)
	root := c.Sqrt(c.Clamp(size, least, math.MaxFloat32))
	sign := c.Sub(c.Step(x.T), c.Step(c.Scale(x.T, -1))) // not all devices have sgn
	return t.unary(x, c.Mul(sign, root), func() *ggml.Tensor {
		return c.Div(c.Scale(c.Step(c.ScaleBias(size, 1, -least)), 0.5), root)
	})
}
