package refmodel

import (
	"math"

	"github.com/goggml/ggml/internal/refmath"
)

// lookup returns the rows of a table that ids name.
func (t *tape) lookup(table *value, ids []int32) *value {
	y := t.result(len(ids), table.width, table)
	for i, id := range ids {
		copy(y.row(i), table.row(int(id)))
	}
	t.record(y, func() {
		for i, id := range ids {
			addScaled(table.gradRow(int(id)), 1, y.gradRow(i))
		}
	})
	return y
}

// multiply returns W·x for each row.
func (t *tape) multiply(w, x *value) *value {
	y := t.result(x.rows(), w.rows(), w, x)
	for i := range x.rows() {
		in, out := x.row(i), y.row(i)
		for o := range out {
			out[o] = dot(w.row(o), in)
		}
	}
	t.record(y, func() {
		for i := range x.rows() {
			in, dIn := x.row(i), x.gradRow(i)
			for o, d := range y.gradRow(i) {
				addScaled(dIn, d, w.row(o))
				addScaled(w.gradRow(o), d, in)
			}
		}
	})
	return y
}

func (t *tape) add(x, y *value) *value {
	sum := t.result(x.rows(), x.width, x, y)
	copy(sum.data, x.data)
	addScaled(sum.data, 1, y.data)
	t.record(sum, func() {
		addScaled(x.grad, 1, sum.grad)
		addScaled(y.grad, 1, sum.grad)
	})
	return sum
}

// addBias adds the one row of b to each row.
func (t *tape) addBias(x, b *value) *value {
	y := t.result(x.rows(), x.width, x, b)
	copy(y.data, x.data)
	for i := range x.rows() {
		addScaled(y.row(i), 1, b.data)
	}
	t.record(y, func() {
		addScaled(x.grad, 1, y.grad)
		for i := range x.rows() {
			addScaled(b.grad, 1, y.gradRow(i))
		}
	})
	return y
}

// multiplyEach multiplies each element by a constant of its own.
func (t *tape) multiplyEach(x *value, factors [][]float64) *value {
	y := t.result(x.rows(), x.width, x)
	for i, row := range factors {
		for j, factor := range row {
			y.row(i)[j] = factor * x.row(i)[j]
		}
	}
	t.record(y, func() {
		for i, row := range factors {
			for j, factor := range row {
				if x.grad != nil {
					x.gradRow(i)[j] += factor * y.gradRow(i)[j]
				}
			}
		}
	})
	return y
}

// scale multiplies by a constant.
func (t *tape) scale(x *value, factor float64) *value {
	y := t.result(x.rows(), x.width, x)
	addScaled(y.data, factor, x.data)
	t.record(y, func() { addScaled(x.grad, factor, y.grad) })
	return y
}

// scaleBy multiplies by the only element of s.
func (t *tape) scaleBy(x, s *value) *value {
	y := t.result(x.rows(), x.width, x, s)
	addScaled(y.data, s.data[0], x.data)
	t.record(y, func() {
		addScaled(x.grad, s.data[0], y.grad)
		if s.grad != nil {
			s.grad[0] += dot(x.data, y.grad)
		}
	})
	return y
}

// rmsNorm returns w·x/√(mean(x²) + eps) of each row.
func (t *tape) rmsNorm(x, w *value, eps float64) *value {
	n := len(w.data)
	y := t.result(x.rows(), x.width, x, w)
	inverse := func(x []float64) float64 { return 1 / math.Sqrt(dot(x, x)/float64(n)+eps) }
	for at := 0; at < len(x.data); at += n {
		in, out := x.data[at:at+n], y.data[at:at+n]
		r := inverse(in)
		for i, v := range in {
			out[i] = v * r * w.data[i]
		}
	}
	t.record(y, func() {
		for at := 0; at < len(x.data); at += n {
			in, d := x.data[at:at+n], y.grad[at:at+n]
			r := inverse(in)
			along := 0.0
			for i, v := range in {
				along += v * d[i] * w.data[i]
				if w.grad != nil {
					w.grad[i] += d[i] * v * r
				}
			}
			along *= r * r / float64(n)
			for i := range in {
				if x.grad != nil {
					x.grad[at+i] += r * (d[i]*w.data[i] - in[i]*along)
				}
			}
		}
	})
	return y
}

// rotate applies RoPE to all heads of each row; row i is at position i.
func (t *tape) rotate(x *value, headDim int, r refmath.RoPE) *value {
	y := t.result(x.rows(), x.width, x)
	cos, sin := make([][]float64, x.rows()), make([][]float64, x.rows())
	turn := func(v []float64, cos, sin []float64) {
		for h := 0; h < len(v); h += headDim {
			r.Rotate(v[h:h+headDim], cos, sin)
		}
	}
	copy(y.data, x.data)
	for i := range cos {
		cos[i], sin[i] = r.Table(float64(i))
		turn(y.row(i), cos[i], sin[i])
	}
	t.record(y, func() {
		for i := range cos { // the transposed of a rotation is that back
			for j := range sin[i] {
				sin[i][j] = -sin[i][j]
			}
			turn(y.gradRow(i), cos[i], sin[i])
		}
		addScaled(x.grad, 1, y.grad)
	})
	return y
}

func silu(x float64) (y, slope float64) {
	s := 1 / (1 + math.Exp(-x))
	return x * s, s * (1 + x*(1-s))
}

// swiGLU returns silu(gate)·up.
func (t *tape) swiGLU(gate, up *value) *value {
	y := t.result(up.rows(), up.width, gate, up)
	for i, g := range gate.data {
		a, _ := silu(g)
		y.data[i] = a * up.data[i]
	}
	t.record(y, func() {
		for i, g := range gate.data {
			a, slope := silu(g)
			if gate.grad != nil {
				gate.grad[i] += y.grad[i] * up.data[i] * slope
			}
			if up.grad != nil {
				up.grad[i] += y.grad[i] * a
			}
		}
	})
	return y
}

// crossEntropy returns Σ w·(−log softmax(x)[target]).
func (t *tape) crossEntropy(x *value, s Sequence) *value {
	y := t.result(1, 1, x)
	for i := range x.rows() {
		if w := s.weight(i); w != 0 {
			y.data[0] += w * (refmath.LogSumExp(x.row(i)) - x.row(i)[s.Targets[i]])
		}
	}
	t.record(y, func() {
		for i := range x.rows() {
			w := s.weight(i) * y.grad[0]
			if w == 0 {
				continue
			}
			d, lse := x.gradRow(i), refmath.LogSumExp(x.row(i))
			for j, v := range x.row(i) {
				d[j] += w * math.Exp(v-lse)
			}
			d[s.Targets[i]] -= w
		}
	})
	return y
}
