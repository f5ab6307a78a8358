package nn

import "github.com/goggml/ggml"

// BatchLinear multiplies parts of x [n_in·count, n] by the matrices of a weight w [n_in, n_out, count] → [n_out, n] each.
func (t *Tape) BatchLinear(x *Value, w *ggml.Tensor) []*Value {
	c, in, out, count, n := t.C, w.Dim(0), w.Dim(1), w.Dim(2), x.T.Dim(1)
	// [n_in·count, n] → [n_in, n, count], and back
	apart := func(x *ggml.Tensor) *ggml.Tensor {
		return c.Cont(c.Permute(c.Reshape(contiguous(c, x), in, count, n), [4]int{0, 2, 1, 3}))
	}
	y := mulMat(c, w, apart(x.T)) // [n_out, n, count]
	list := make([]*Value, count)
	needsGrad := x.needsGrad || t.Trains(w)
	for i := range list {
		part := c.View(y, []int64{out, n}, []int64{y.Stride(1)}, int64(i)*y.Stride(2))
		list[i] = &Value{T: part, needsGrad: needsGrad}
	}
	if !t.Training() || !needsGrad {
		return list
	}
	t.step(func() {
		var dy *ggml.Tensor // [n_out, n, count]
		for _, y := range list {
			d := t.gradient(y)
			if d == nil {
				d = c.Fill(c.Cont(y.T), 0)
			}
			dy = joined(c, dy, c.Reshape(d, out, n, 1), 2)
		}
		t.accumulate(w, func() *ggml.Tensor { return mulMat(c, transposed(c, apart(x.T)), transposed(c, dy)) })
		t.flow(x, func() *ggml.Tensor {
			dx := mulMat(c, transposed(c, w), dy) // [n_in, n, count]
			return c.Reshape(c.Cont(c.Permute(dx, [4]int{0, 2, 1, 3})), in*count, n)
		})
	})
	return list
}
