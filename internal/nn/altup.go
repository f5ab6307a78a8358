package nn

import "github.com/goggml/ggml"

// Tanh returns the hyperbolic tangent of x.
func (t *Tape) Tanh(x *Value) *Value {
	x = t.Contiguous(x)
	y := t.C.Tanh(x.T)
	return t.unary(x, y, func() *ggml.Tensor { return t.C.ScaleBias(t.C.Sqr(y), -1, 1) })
}

// Length returns the Euclidean norm of each vector of x [m, …] → [1, …].
func (t *Tape) Length(x *Value) *Value {
	x = t.Contiguous(x)
	c := t.C
	y := c.Sqrt(c.SumRows(c.Sqr(x.T)))
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{c.Mul(x.T, c.Div(dy, y))} }, x)
}

// Mix returns sums of the vectors of each token, x [m, k, n] by coefficients [k, l, n] → [m, l, n].
func (t *Tape) Mix(x, coefficients *Value) *Value {
	c := t.C
	x, coefficients = t.Contiguous(x), t.Contiguous(coefficients)
	swapped := func(x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Permute(x, [4]int{1, 0, 2, 3})) }
	return t.Op(mulMat(c, swapped(x.T), coefficients.T), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{mulMat(c, swapped(dy), swapped(coefficients.T)), mulMat(c, x.T, dy)}
	}, x, coefficients)
}

// AboveCutoff is the name of how far activations lie above the cutoff, see [Tape.Sparse].
const AboveCutoff = "above the cutoff"

// Sparse returns max(0, x − mean − deviations · standard deviation) for each column of x [m, n] (the Gaussian top-k of
// Gemma 3n).
func (t *Tape) Sparse(x *Value, deviations float32) *Value {
	c := t.C
	x = t.Contiguous(x)
	m := float32(x.T.Dim(0))
	apart := centred(c, x.T)
	deviation := c.Sqrt(c.Scale(c.SumRows(c.Sqr(apart)), 1/(m-1)))
	above := c.Sub(apart, c.Scale(deviation, deviations)).SetName(AboveCutoff)
	return t.Op(c.Relu(above), func(dy *ggml.Tensor) []*ggml.Tensor {
		dy = c.Mul(dy, c.Step(above))
		ofDeviation := c.Mul(apart, c.Div(c.SumRows(dy), deviation))
		return []*ggml.Tensor{centred(c, c.Sub(dy, c.Scale(ofDeviation, deviations/(m-1))))}
	}, x)
}
