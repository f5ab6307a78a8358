package nn

import "github.com/goggml/ggml"

// Shift returns the token by positions before each one in its sample, or after it if by is negative, x [m, n] → [m, n]; zeros
// outside of the sample.
func (t *Tape) Shift(x *Value, by int) *Value {
	return t.Op(t.shifted(x.T, by), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.shifted(dy, -by)} }, x)
}

// Lerp returns x + (to − x)·w [m, n] for each column of a weight w [m, …]. If there are as many values more [m, n] as columns, the
// factor is w + more.
func (t *Tape) Lerp(x, to *Value, w *ggml.Tensor, more ...*Value) []*Value {
	c, m := t.C, x.T.Dim(0)
	diff := c.Sub(to.T, x.T)
	count := w.NumElements() / max(1, m) // 0 of a tensor that stands for a failure
	if len(more) > 0 {
		count = int64(len(more))
	}
	list := make([]*Value, count)
	columns, factors := make([]*ggml.Tensor, len(list)), make([]*ggml.Tensor, len(list))
	anyGrad := false
	for i := range list {
		columns[i] = c.View(w, []int64{m}, nil, int64(i)*m*w.Type().BlockBytes())
		factors[i] = columns[i]
		needsGrad := x.needsGrad || to.needsGrad || t.Trains(w)
		if len(more) > 0 {
			factors[i] = c.Add(more[i].T, columns[i])
			needsGrad = needsGrad || more[i].needsGrad
		}
		list[i] = &Value{T: c.Add(x.T, c.Mul(diff, factors[i])), needsGrad: needsGrad}
		anyGrad = anyGrad || needsGrad
	}
	if !t.Training() || !anyGrad {
		return list
	}
	t.step(func() {
		var sum, toward, dw *ggml.Tensor
		for i, y := range list {
			dy := t.gradient(y)
			if dy == nil {
				dy = c.Fill(y.T, 0)
			}
			byFactor := c.Mul(dy, diff)
			sum, toward = added(c, sum, dy), added(c, toward, c.Mul(dy, factors[i]))
			if len(more) > 0 {
				t.flow(more[i], func() *ggml.Tensor { return byFactor })
			}
			if t.Trains(w) {
				dw = joined(c, dw, SumColumns.Build(t, SumOperands{byFactor, columns[i]}), 0)
			}
		}
		t.accumulate(w, func() *ggml.Tensor { return c.Reshape(dw, w.Shape()...) })
		t.flow(to, func() *ggml.Tensor { return toward })
		t.flow(x, func() *ggml.Tensor { return c.Sub(sum, toward) })
	})
	return list
}
