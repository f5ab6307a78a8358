package nn

import "github.com/goggml/ggml"

// A Norm is what a norm over ne0 takes beside the vectors. It may have neither weight nor bias.
type Norm struct {
	Layer        bool // LayerNorm (arXiv 1607.06450); RMSNorm (arXiv 1910.07467) otherwise
	Weight, Bias *ggml.Tensor
	Eps          float32
	// Groups of elements are normalised each, by an RMSNorm; 0 and 1 stand for all together.
	Groups int
}

// Norm returns the norm of x over ne0, times its weight, plus its bias: x [m, …], weight and
// bias [m], or of more dimensions of x.
func (t *Tape) Norm(x *Value, n Norm) *Value {
	switch {
	case n.Layer:
		x = t.layerNorm(x, n.Eps)
	case n.Groups > 1:
		x = t.Flat(t.rmsNorm(t.Heads(x, int64(n.Groups)), n.Eps))
	case n.Weight != nil && n.Weight.NumDims() == 1:
		x, n.Weight = t.RMSNorm(x, n.Weight, n.Eps), nil
	default:
		x = t.rmsNorm(x, n.Eps)
	}
	return t.AddWeight(t.MulWeight(x, n.Weight), n.Bias)
}

// RMSNorm returns x / rms(x) · w over ne0: x [m, …], w [m].
func (t *Tape) RMSNorm(x *Value, w *ggml.Tensor, eps float32) *Value {
	c := t.C
	y := &Value{T: t.Lowering.RMSNorm(c, x.T, w, eps), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return t.Lowering.SumColumns(c, c.Mul(dy, c.RMSNorm(x.T, eps)), w) })
		t.flow(x, func() *ggml.Tensor { return t.Lowering.RMSNormGrad(c, dy, x.T, w, eps) })
	})
	return y
}

// rmsNorm is RMSNorm without a weight.
func (t *Tape) rmsNorm(x *Value, eps float32) *Value {
	return t.Op(t.C.RMSNorm(x.T, eps), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{rmsNormGrad(t.C, dy, x.T, eps)}
	}, x)
}

// layerNorm returns (x − mean) / deviation.
func (t *Tape) layerNorm(x *Value, eps float32) *Value {
	return t.Op(t.C.Norm(x.T, eps), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{layerNormGrad(t.C, dy, x.T, eps)}
	}, x)
}

// layerNormGrad is that of the RMS norm of what remains of x without its mean, without its mean.
func layerNormGrad(c *ggml.Context, dy, x *ggml.Tensor, eps float32) *ggml.Tensor {
	centred := func(x *ggml.Tensor) *ggml.Tensor {
		return c.Sub(x, c.Scale(c.SumRows(x), 1/float32(x.Dim(0))))
	}
	return centred(rmsNormGrad(c, dy, centred(contiguous(c, x)), eps))
}

// MulWeight returns x · w, for a weight that is repeated to x's shape; nil stands for none. One that
// has the elements of ne0 in another shape is taken as if it had theirs.
func (t *Tape) MulWeight(x *Value, w *ggml.Tensor) *Value {
	if w == nil {
		return x
	}
	c, factors := t.C, w
	if n := x.T.Dim(0); w.Dim(0) != n && w.NumElements() == n {
		factors = c.Reshape(w, n)
	}
	y := &Value{T: c.Mul(x.T, factors), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return t.sumTo(w, c.Mul(dy, x.T)) })
		t.flow(x, func() *ggml.Tensor { return c.Mul(dy, factors) })
	})
	return y
}

// AddWeight returns x + w, for a weight that is repeated to x's shape; nil stands for none.
func (t *Tape) AddWeight(x *Value, w *ggml.Tensor) *Value {
	if w == nil {
		return x
	}
	y := &Value{T: t.C.Add(x.T, w), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return t.sumTo(w, dy) })
		t.flow(x, func() *ggml.Tensor { return dy })
	})
	return y
}

// sumTo is the sum of x [m, heads, …] over what a weight, [m], [m, heads] or [1, heads], is
// repeated along.
func (t *Tape) sumTo(w, x *ggml.Tensor) *ggml.Tensor {
	c := t.C
	if w.Dim(0) == 1 {
		x = c.SumRows(contiguous(c, x))
	}
	flat := c.Reshape(contiguous(c, x), w.NumElements(), x.NumElements()/w.NumElements())
	return c.Reshape(t.Lowering.SumColumns(c, flat, c.Reshape(w, w.NumElements())), w.Shape()...)
}
