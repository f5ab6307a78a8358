package nn

import "github.com/goggml/ggml"

// SinkhornOperands are the logits [to·from, n] of a matrix for each token, with the settings. Where they are made of Mixes,
// some devices take these instead, see [ggml.Context.HyperConnectComb].
type SinkhornOperands struct {
	Logits      *Value
	Mixes       *Value // [(2 + from)·from, n]
	Scale, Base *ggml.Tensor
	Streams     int64 // rows and columns of a matrix
	ggml.Sinkhorn
}

// Sinkhorn makes matrices whose rows and columns sum to nearly 1, [from, to, n], by the Sinkhorn-Knopp normalisation (arXiv
// 2512.24880).
var Sinkhorn = &Op[SinkhornOperands, *Value]{plainSinkhorn}

// optionalSinkhorn is a row for devices that have the op.
var optionalSinkhorn = Sinkhorn.When(func(t *Tape, o SinkhornOperands) bool {
	return isFused(t, o) && t.Lowering.Supports != nil && t.Lowering.Supports(sinkhornComb(t, o))
}, fusedSinkhorn)

// isFused reports whether the op takes the operands. It has no gradient, so graphs that train leave it out of layers without
// gradients too: checkpoints recompute the same ops.
func isFused(t *Tape, o SinkhornOperands) bool {
	const streams = 4
	return t.Grads == nil && o.Streams == streams
}

func fusedSinkhorn(t *Tape, o SinkhornOperands) *Value { return t.swapped(Input(sinkhornComb(t, o))) }

func sinkhornComb(t *Tape, o SinkhornOperands) *ggml.Tensor {
	return t.C.HyperConnectComb(contiguous(t.C, o.Mixes.T), o.Scale, o.Base, o.Sinkhorn)
}

// plainSinkhorn takes the softmax over to, and divides by the sums over from and to by turns.
func plainSinkhorn(t *Tape, o SinkhornOperands) *Value {
	x := t.AddNumber(t.SoftMax(t.Heads(t.Contiguous(o.Logits), o.Streams)), o.Eps) // [to, from, n]
	x = t.divideBySums(t.swapped(x), o.Eps)
	for range o.Iterations - 1 {
		x = t.divideBySums(t.swapped(x), o.Eps)
		x = t.divideBySums(t.swapped(x), o.Eps)
	}
	return x
}

// divideBySums divides each column of x [m, …] by its sum plus eps.
func (t *Tape) divideBySums(x *Value, eps float32) *Value {
	c := t.C
	sum := c.ScaleBias(c.SumRows(x.T), 1, eps)
	y := c.Div(x.T, sum)
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.Div(c.Sub(dy, c.SumRows(c.Mul(dy, y))), sum)}
	}, x)
}

// swapped transposes each matrix of x [k, l, n] → [l, k, n].
func (t *Tape) swapped(x *Value) *Value {
	turn := func(x *ggml.Tensor) *ggml.Tensor { return t.C.Cont(t.C.Permute(x, [4]int{1, 0, 2, 3})) }
	return t.Op(turn(x.T), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{turn(dy)} }, x)
}

// MulRanges multiplies ranges of the rows of x [Σ sizes, n] by a number each, of a weight w.
func (t *Tape) MulRanges(x *Value, w *ggml.Tensor, sizes ...int64) *Value {
	c := t.C
	var factors *ggml.Tensor
	for i, size := range sizes {
		factors = joined(c, factors, c.Repeat(c.View(w, []int64{1}, nil, int64(i)*w.Stride(0)), size), 0)
	}
	y := &Value{T: c.Mul(x.T, factors), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor {
			var sums *ggml.Tensor
			all, from := SumColumns.Build(t, SumOperands{c.Mul(x.T, dy), factors}), int64(0)
			for _, size := range sizes {
				sums = joined(c, sums, c.SumRows(c.View(all, []int64{size}, nil, from*all.Stride(0))), 0)
				from += size
			}
			return sums
		})
		t.flow(x, func() *ggml.Tensor { return c.Mul(dy, factors) })
	})
	return y
}
