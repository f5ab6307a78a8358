package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// SiLU returns x · σ(x).
func (t *Tape) SiLU(x *Value) *Value {
	x = t.Contiguous(x)
	return t.unary(x, t.C.Silu(x.T), func() *ggml.Tensor { return activationSlope(t.C, ggml.SwiGLU, x.T) })
}

// GELU returns its approximation by tanh (arXiv 1606.08415).
func (t *Tape) GELU(x *Value) *Value {
	x = t.Contiguous(x)
	return t.unary(x, t.C.Gelu(x.T), func() *ggml.Tensor { return activationSlope(t.C, ggml.GeGLU, x.T) })
}

// SquaredReLU returns max(x, 0)² (arXiv 2109.08668).
func (t *Tape) SquaredReLU(x *Value) *Value {
	x = t.Contiguous(x)
	c := t.C
	positive := c.Relu(x.T)
	return t.unary(x, c.Sqr(positive), func() *ggml.Tensor { return c.Scale(positive, 2) })
}

// Sigmoid returns 1 / (1 + e⁻ˣ).
func (t *Tape) Sigmoid(x *Value) *Value {
	x = t.Contiguous(x)
	c := t.C
	s := c.Sigmoid(x.T)
	return t.unary(x, s, func() *ggml.Tensor { return c.Mul(s, c.ScaleBias(s, -1, 1)) })
}

// Exp returns eˣ.
func (t *Tape) Exp(x *Value) *Value {
	y := t.C.Exp(x.T)
	return t.unary(x, y, func() *ggml.Tensor { return y })
}

// Softplus returns log(1 + eˣ).
func (t *Tape) Softplus(x *Value) *Value {
	x = t.Contiguous(x)
	return t.unary(x, t.C.Softplus(x.T), func() *ggml.Tensor { return t.C.Sigmoid(x.T) })
}

// Sqrt returns √x.
func (t *Tape) Sqrt(x *Value) *Value {
	y := t.C.Sqrt(x.T)
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.C.Scale(t.C.Div(dy, y), 0.5)} }, x)
}

// Clamp limits x to ±limit; 0 stands for no limit.
func (t *Tape) Clamp(x *Value, limit float32) *Value {
	if limit == 0 {
		return x
	}
	x = t.Contiguous(x)
	c := t.C
	return t.unary(x, c.Clamp(x.T, -limit, limit), func() *ggml.Tensor {
		return c.Step(c.ScaleBias(c.Abs(x.T), -1, limit))
	})
}

// ReLU returns max(x, 0).
func (t *Tape) ReLU(x *Value) *Value {
	x = t.Contiguous(x)
	return t.unary(x, t.C.Relu(x.T), func() *ggml.Tensor { return t.C.Step(x.T) })
}

// ClampAbove returns min(x, limit).
func (t *Tape) ClampAbove(x *Value, limit float32) *Value {
	x = t.Contiguous(x)
	c := t.C
	return t.unary(x, c.Clamp(x.T, -math.MaxFloat32, limit), func() *ggml.Tensor { return c.Step(c.ScaleBias(x.T, -1, limit)) })
}

// AddNumber returns x + number.
func (t *Tape) AddNumber(x *Value, number float32) *Value {
	return t.Op(t.C.ScaleBias(x.T, 1, number), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{dy} }, x)
}

// Contiguous returns x, or a copy if x is a part of rows.
func (t *Tape) Contiguous(x *Value) *Value {
	y := contiguous(t.C, x.T)
	if y == x.T {
		return x
	}
	return t.reshape(x, y)
}

// unary returns a value for y, an elementwise function of x with the given slope.
func (t *Tape) unary(x *Value, y *ggml.Tensor, slope func() *ggml.Tensor) *Value {
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.C.Mul(dy, slope())} }, x)
}

// Mul returns x · y, for y of x's shape or of [1, …], which is repeated along ne0.
func (t *Tape) Mul(x, y *Value) *Value {
	c := t.C
	return t.Op(c.Mul(x.T, y.T), func(d *ggml.Tensor) []*ggml.Tensor {
		dy := c.Mul(d, x.T)
		if y.T.Dim(0) < x.T.Dim(0) {
			dy = c.SumRows(dy)
		}
		return []*ggml.Tensor{c.Mul(d, y.T), dy}
	}, x, y)
}
