package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// A Norm holds the parameters of a norm over ne0. Weight and bias are optional.
type Norm struct {
	Layer        bool // LayerNorm (arXiv 1607.06450); RMSNorm (arXiv 1910.07467) otherwise
	Weight, Bias *ggml.Tensor
	Eps          float32
	// Groups is the number of groups of elements that an RMSNorm normalises separately; 0 and 1: all together.
	Groups int
}

func (n Norm) isWeightedRMS() bool { return !n.Layer && n.Weight != nil }

// NormOperands are vectors along ne0 of X [m, …], with weight and bias [m].
type NormOperands struct {
	X *ggml.Tensor
	Norm
}

// Normalization is a norm in one group, with the gradient of X.
var Normalization = &Op[NormOperands, Result[*ggml.Tensor]]{plainNorm}

// Norm returns the norm of x over ne0, times its weight, plus its bias: x [m, …], weight and
// bias [m], or of more dimensions of x.
func (t *Tape) Norm(x *Value, n Norm) *Value {
	if n.Groups > 1 && !n.Layer {
		y := t.Flat(t.norm(t.Heads(x, int64(n.Groups)), Norm{Eps: n.Eps}))
		return t.AddWeight(t.MulWeight(y, n.Weight), n.Bias)
	}
	// The op takes vectors [m]; a weight of another shape is applied after it.
	var weight, bias *ggml.Tensor
	if !isVector(n.Weight, x) {
		n.Weight, weight, n.Bias, bias = nil, n.Weight, nil, n.Bias
	}
	if !isVector(n.Bias, x) {
		n.Bias, bias = nil, n.Bias
	}
	return t.AddWeight(t.MulWeight(t.norm(x, n), weight), bias)
}

// isVector reports whether an optional weight of a norm of x is a vector [m].
func isVector(w *ggml.Tensor, x *Value) bool {
	return w == nil || w.NumDims() == 1 && w.Dim(0) == x.T.Dim(0)
}

// norm is Norm of one group, with vectors [m] as weight and bias.
func (t *Tape) norm(x *Value, n Norm) *Value {
	normed := Normalization.Build(t, NormOperands{x.T, n})
	y := &Value{T: normed.Y, needsGrad: x.needsGrad || t.Trains(n.Weight) || t.Trains(n.Bias)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulateNorm(n, x.T, dy)
		t.flow(x, func() *ggml.Tensor { return normed.Grad(dy) })
	})
	return y
}

// accumulateNorm adds the gradients of the weight and the bias of a norm of x.
func (t *Tape) accumulateNorm(n Norm, x, dy *ggml.Tensor) {
	t.accumulateBias(n.Bias, dy)
	t.accumulate(n.Weight, func() *ggml.Tensor {
		bare := Normalization.Build(t, NormOperands{x, Norm{Layer: n.Layer, Eps: n.Eps}})
		return SumColumns.Build(t, SumOperands{t.C.Mul(dy, bare.Y), n.Weight})
	})
}

func plainNorm(t *Tape, n NormOperands) Result[*ggml.Tensor] {
	return normBy(t, n, func(dy, x *ggml.Tensor) *ggml.Tensor { return rmsNormGrad(t.C, dy, x, n.Eps) })
}

// normBy is a norm with a given gradient of the RMS norm without weight.
func normBy(t *Tape, n NormOperands, rmsNormGrad func(dy, x *ggml.Tensor) *ggml.Tensor) Result[*ggml.Tensor] {
	c, norm := t.C, t.C.RMSNorm
	if n.Layer {
		norm = c.Norm
	}
	y := addBias(c, mulScale(c, norm(n.X, n.Eps), n.Weight), n.Bias)
	return Result[*ggml.Tensor]{y, func(dy *ggml.Tensor) *ggml.Tensor {
		dy = mulScale(c, dy, n.Weight)
		if !n.Layer {
			return rmsNormGrad(dy, contiguous(c, n.X))
		}
		// LayerNorm is the RMS norm of the centred x, so that its gradient is centred, too.
		return centred(c, rmsNormGrad(dy, centred(c, contiguous(c, n.X))))
	}}
}

// centred is x less its mean over ne0.
func centred(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Sub(x, c.Scale(c.SumRows(x), 1/float32(x.Dim(0))))
}

// rmsNormGrad is (dy − u·mean(dy⊙u)) / rms, with u = x/rms.
func rmsNormGrad(c *ggml.Context, dy, x *ggml.Tensor, eps float32) *ggml.Tensor {
	n := 1 / float32(x.Dim(0))
	u := c.RMSNorm(x, eps)
	rms := c.Sqrt(c.ScaleBias(c.SumRows(c.Sqr(x)), n, eps))
	mean := c.Scale(c.SumRows(c.Mul(dy, u)), n)
	return c.Div(c.Sub(dy, c.Mul(u, mean)), rms)
}

// Unit returns x / √(‖x‖² + eps) over ne0: RMSNorm with other factors.
func (t *Tape) Unit(x *Value, eps float32) *Value {
	n := float64(max(1, x.T.Dim(0))) // 0 of a tensor that stands for a failure
	return t.Scale(t.Norm(x, Norm{Eps: eps / float32(n)}), float32(1/math.Sqrt(n)))
}

// L2Norm returns x / max(‖x‖, eps) over ne0.
func (t *Tape) L2Norm(x *Value, eps float32) *Value {
	c := t.C
	x = t.Contiguous(x)
	y := c.L2Norm(x.T, eps)
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		length := c.Sqrt(c.SumRows(c.Sqr(x.T)))
		along := c.Mul(c.SumRows(c.Mul(dy, y)), c.Step(c.ScaleBias(length, 1, -eps))) // a clamped length is constant
		return []*ggml.Tensor{c.Div(c.Sub(dy, c.Mul(y, along)), c.Clamp(length, eps, math.MaxFloat32))}
	}, x)
}

// MulWeight returns x · w, with w repeated to x's shape; x itself if w is nil. A w with as many
// elements as ne0 in another shape is taken as a vector.
func (t *Tape) MulWeight(x *Value, w *ggml.Tensor) *Value {
	if w == nil {
		return x
	}
	factors := w
	if n := x.T.Dim(0); w.Dim(0) != n && w.Dim(0) > 1 && w.NumElements() == n {
		factors = t.C.Reshape(w, n)
	}
	return t.mulFactors(x, w, factors)
}

// MulHeads returns x [size, heads, n] times a number for each head, of a weight [heads] or [1, heads].
func (t *Tape) MulHeads(x *Value, w *ggml.Tensor) *Value {
	return t.mulFactors(x, w, t.C.Reshape(w, 1, x.T.Dim(1)))
}

// mulFactors returns x times factors, which are repeated to x's shape: a weight in another shape.
func (t *Tape) mulFactors(x *Value, w, factors *ggml.Tensor) *Value {
	c := t.C
	y := &Value{T: c.Mul(x.T, factors), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return t.sumTo(factors, c.Mul(dy, x.T), w.Shape()) })
		t.flow(x, func() *ggml.Tensor { return c.Mul(dy, factors) })
	})
	return y
}

// AddWeight returns x + w, with w repeated to x's shape; x itself if w is nil.
func (t *Tape) AddWeight(x *Value, w *ggml.Tensor) *Value {
	if w == nil {
		return x
	}
	y := &Value{T: t.C.Add(x.T, w), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return t.sumTo(w, dy, w.Shape()) })
		t.flow(x, func() *ggml.Tensor { return dy })
	})
	return y
}

// sumTo sums x [m, heads, …] over the dimensions along which a weight, [m], [m, heads] or
// [1, heads], is repeated, and reshapes the sum.
func (t *Tape) sumTo(w, x *ggml.Tensor, shape []int64) *ggml.Tensor {
	c := t.C
	if w.Dim(0) == 1 {
		x = c.SumRows(contiguous(c, x))
	}
	flat := c.Reshape(contiguous(c, x), w.NumElements(), x.NumElements()/max(1, w.NumElements()))
	return c.Reshape(SumColumns.Build(t, SumOperands{flat, c.Reshape(w, w.NumElements())}), shape...)
}
