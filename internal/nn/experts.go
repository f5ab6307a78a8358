package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// LinearID multiplies x [n_in, used, n], or [n_in, 1, n] shared, with the matrices of the chosen
// experts → [n_out, used, n], with the scale [experts] and the bias [n_out, experts] of each, and
// adapters of three dimensions: Scale_id · W_id·x + Σ s·B_id·(A_id·x) + Bias_id, as llama.cpp has
// them.
func (t *Tape) LinearID(x *Value, ids *ggml.Tensor, m Matrix) *Value {
	t = t.of(m)
	c, adapters := t.C, t.Adapters.On(m)
	y := &Value{T: MatMulID.Build(t, ExpertOperands{m.W, x.T, ids}), needsGrad: x.needsGrad || t.Trains(m.W) || t.Trains(m.Bias)}
	var scale *ggml.Tensor // [1, used, n]
	if m.Scale != nil {
		scale = c.Reshape(c.GetRows(c.Reshape(m.Scale, 1, m.Scale.Dim(0)), flatIDs(c, ids)), 1, ids.Dim(0), ids.Dim(1))
		y.T = c.Mul(y.T, scale)
	}
	lowRank := make([]*ggml.Tensor, len(adapters)) // s·A_id·x
	for i, p := range adapters {
		dropped, _ := t.Dropout.dropID(t, x, p)
		lowRank[i] = t.owned(c.Scale(MatMulID.Build(t, ExpertOperands{p.A, dropped.T, ids}), p.Scale), p)
		y.T = c.Add(y.T, MatMulID.Build(t, ExpertOperands{p.B, lowRank[i], ids}))
		y.needsGrad = y.needsGrad || t.Trains(p.A) || t.Trains(p.B)
	}
	if m.Bias != nil {
		y.T = c.AddID(y.T, m.Bias, ids)
	}
	t.record(y, func(dy *ggml.Tensor) {
		if m.Bias != nil {
			t.accumulate(m.Bias, func() *ggml.Tensor {
				return ScatterAdd.Build(t, ScatterOperands{flatten(c, dy), flatIDs(c, ids), m.Bias})
			})
		}
		own := mulScale(c, dy, scale)
		t.accumulateID(m.W, x.T, own, ids)
		t.flow(x, func() *ggml.Tensor { return t.shared(x, MatMulIDGradInput.Build(t, ExpertOperands{m.W, own, ids})) })
		for i, p := range adapters {
			t.accumulateID(p.B, lowRank[i], dy, ids)
			dh := c.Scale(MatMulIDGradInput.Build(t, ExpertOperands{p.B, dy, ids}), p.Scale)
			dropped, mask := t.Dropout.dropID(t, x, p) // once more, instead of keeping it
			t.accumulateID(p.A, dropped.T, dh, ids)
			t.flow(x, func() *ggml.Tensor {
				dx := t.shared(x, MatMulIDGradInput.Build(t, ExpertOperands{p.A, dh, ids}))
				if mask != nil {
					dx = c.Mul(dx, mask)
				}
				return dx
			})
		}
	})
	return y
}

// EachMatrix chooses all of so many matrices for each column, I32 [experts, n].
func (t *Tape) EachMatrix(experts, n int64) *ggml.Tensor {
	return Declare(t.Inputs, fmt.Sprintf("each of %d, %d times", experts, n), ggml.I32, []int64{experts, n}, func(_ *Feed, ids []int32) {
		for i := range ids {
			ids[i] = int32(int64(i) % experts)
		}
	})
}

// shared is a gradient of x, which the chosen experts may share.
func (t *Tape) shared(x *Value, dx *ggml.Tensor) *ggml.Tensor {
	if x.T.Dim(1) == dx.Dim(1) {
		return dx
	}
	return t.C.Reshape(sumMiddle(t.C, dx), x.T.Shape()...)
}

// accumulateID adds the gradient of w [n_in, n_out, experts]; each column has chosen some of its
// matrices.
func (t *Tape) accumulateID(w, x, dy, ids *ggml.Tensor) {
	if acc := t.Grads[w]; acc != nil {
		t.Graph.Expand(AccumulateGradWeightID.Build(t, GradIDOperands{acc, x, dy, ids}))
	}
}

// flatten is x [m, used, n] as [m, used·n].
func flatten(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1)*x.Dim(2))
}

// flatIDs is ids [used, n], which may be a view of the first of many, as [used·n].
func flatIDs(c *ggml.Context, ids *ggml.Tensor) *ggml.Tensor {
	if !ids.IsContiguous() {
		ids = c.Cont(ids)
	}
	return c.Reshape(ids, ids.NumElements())
}

// sumMiddle adds up x [m, used, n] over used → [m, n].
func sumMiddle(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	var all *ggml.Tensor
	for i := range x.Dim(1) {
		all = added(c, all, c.View(x, []int64{x.Dim(0), x.Dim(2)}, []int64{x.Stride(2)}, i*x.Stride(1)))
	}
	if x.Dim(1) == 1 {
		all = c.Cont(all)
	}
	return all
}

// Weigh adds up what the chosen experts made, x [m, used, n], by weights w [used, n] → [m, n].
func (t *Tape) Weigh(x, w *Value) *Value {
	c, m, used, n := t.C, x.T.Dim(0), x.T.Dim(1), x.T.Dim(2)
	weights := c.Reshape(w.T, 1, used, n)
	y := sumMiddle(c, c.Mul(x.T, weights))
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		dy = c.Repeat(c.Reshape(dy, m, 1, n), m, used, n)
		return []*ggml.Tensor{c.Mul(dy, weights), c.Reshape(c.SumRows(c.Mul(dy, x.T)), used, n)}
	}, x, w)
}

// SumExperts adds up what the chosen experts made, x [m, used, n] → [m, n].
func (t *Tape) SumExperts(x *Value) *Value {
	c, m, used, n := t.C, x.T.Dim(0), x.T.Dim(1), x.T.Dim(2)
	return t.Op(sumMiddle(c, x.T), func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.Repeat(c.Reshape(dy, m, 1, n), m, used, n)}
	}, x)
}

// WeighInputs gives each of the chosen experts x [m, n] times its weight of w [used, n] →
// [m, used, n].
func (t *Tape) WeighInputs(x, w *Value) *Value {
	c, m, used, n := t.C, x.T.Dim(0), w.T.Dim(0), x.T.Dim(1)
	weights, one := c.Reshape(w.T, 1, used, n), c.Reshape(x.T, m, 1, n)
	y := c.Mul(c.Repeat(one, m, used, n), weights)
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{sumMiddle(c, c.Mul(dy, weights)), c.Reshape(c.SumRows(c.Mul(dy, one)), used, n)}
	}, x, w)
}

// Chosen looks up the elements of x [experts, n] that ids [used, n] choose → [used, n].
func (t *Tape) Chosen(x *Value, ids *ggml.Tensor) *Value {
	c, experts, used, n := t.C, x.T.Dim(0), ids.Dim(0), ids.Dim(1)
	y := c.Reshape(c.GetRows(c.Reshape(x.T, 1, experts, n), ids), used, n)
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		zeros := c.Reshape(c.Scale(x.T, 0), 1, experts, n)
		return []*ggml.Tensor{c.Reshape(c.SetRows(zeros, c.Reshape(dy, 1, used, n), ids), experts, n)}
	}, x)
}

// SoftMax returns the softmax of each column of x [m, n].
func (t *Tape) SoftMax(x *Value) *Value {
	c := t.C
	p := c.SoftMax(x.T)
	return t.Op(p, func(dp *ggml.Tensor) []*ggml.Tensor {
		return []*ggml.Tensor{c.Mul(p, c.Sub(dp, c.SumRows(c.Mul(p, dp))))}
	}, x)
}

// Normalized divides each column of x [m, n] by its sum, which counts as at least the smallest
// normal number of F16.
func (t *Tape) Normalized(x *Value) *Value {
	const least, most = 6.103515625e-5, 3e38
	c := t.C
	own := c.SumRows(x.T)
	sum := c.Clamp(own, least, most)
	y := c.Div(x.T, sum)
	return t.Op(y, func(dy *ggml.Tensor) []*ggml.Tensor {
		counts := c.Step(c.ScaleBias(own, 1, -least)) // 0 where x changes nothing of the sum
		return []*ggml.Tensor{c.Div(c.Sub(dy, c.Mul(c.SumRows(c.Mul(dy, y)), counts)), sum)}
	}, x)
}

// Columns is x [m, n] as [m, 1, n], which the chosen experts of a column share.
func (t *Tape) Columns(x *Value) *Value {
	return t.reshape(x, t.C.Reshape(x.T, x.T.Dim(0), 1, x.T.Dim(1)))
}

// Flatten is x [m, used, n] as [m, used·n], and Unflatten the way back.
func (t *Tape) Flatten(x *Value) *Value {
	return t.reshape(x, t.C.Reshape(x.T, x.T.Dim(0), x.T.Dim(1)*x.T.Dim(2)))
}

// Unflatten is x [m, used·n] as [m, used, n].
func (t *Tape) Unflatten(x *Value, used int64) *Value {
	return t.reshape(x, t.C.Reshape(x.T, x.T.Dim(0), used, x.T.Dim(1)/max(1, used)))
}

// Dot is the product of each column of x [m, n] with w [m] → [1, n].
func (t *Tape) Dot(x *Value, w *ggml.Tensor) *Value {
	c := t.C
	y := &Value{T: c.SumRows(c.Mul(x.T, w)), needsGrad: x.needsGrad || t.Trains(w)}
	t.record(y, func(dy *ggml.Tensor) {
		t.accumulate(w, func() *ggml.Tensor { return SumColumns.Build(t, SumOperands{c.Mul(x.T, dy), w}) })
		t.flow(x, func() *ggml.Tensor { return c.Mul(c.Repeat(w, x.T.Shape()...), dy) })
	})
	return y
}
