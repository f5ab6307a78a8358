package refmath

import "math"

// A recurrence runs over the tokens of each sequence and head. step gets the offset of the token's head in the
// data of operands [n, heads, tokens], the head's state [n·n], and the slice for the n results.
func recurrence(shape [4]int64, state Tensor, step func(at int64, head int64, s, y []float64)) Tensor {
	n, heads, tokens, sequences := shape[0], shape[1], shape[2], state.Ne[1]
	width := n * heads
	out := New(width, tokens+n*sequences)
	states := out.Data[width*tokens:]
	copy(states, state.Data)
	for t := range tokens {
		sequence := t / (tokens / sequences)
		for h := range heads {
			at := t*width + h*n
			first := (sequence*heads + h) * n * n
			step(at, h, states[first:first+n*n], out.Data[at:at+n])
		}
	}
	return out
}

// RWKV6 returns y and then the states: y = r·(S + diag(first)·kᵀv), S ← diag(decay)·S + kᵀv, S row by row.
func RWKV6(k, v, r, first, decay, state Tensor) Tensor {
	n := k.Ne[0]
	return recurrence(k.Ne, state, func(at, h int64, s, y []float64) {
		for i := range n {
			for j := range n {
				kv := k.Data[at+i] * v.Data[at+j]
				y[j] += r.Data[at+i] * (s[i*n+j] + first.Data[h*n+i]*kv)
				s[i*n+j] = decay.Data[at+i]*s[i*n+j] + kv
			}
		}
	})
}

// GatedLinearAttention returns y and then the states: S ← diag(g)·S + kᵀv, y = scale·q·S.
func GatedLinearAttention(k, v, q, g, state Tensor, scale float64) Tensor {
	n := k.Ne[0]
	return recurrence(k.Ne, state, func(at, _ int64, s, y []float64) {
		for i := range n {
			for j := range n {
				s[i*n+j] = g.Data[at+i]*s[i*n+j] + k.Data[at+i]*v.Data[at+j]
				y[j] += scale * q.Data[at+i] * s[i*n+j]
			}
		}
	})
}

// RWKV7 returns y and then the states: S ← S·diag(w) + (S·a)·bᵀ + v·kᵀ, y = S·r.
func RWKV7(r, w, k, v, a, b, state Tensor) Tensor {
	n := k.Ne[0]
	return recurrence(k.Ne, state, func(at, _ int64, s, y []float64) {
		for i := range n {
			row := s[i*n : (i+1)*n]
			sa := 0.0
			for j := range n {
				sa += row[j] * a.Data[at+j]
			}
			for j := range n {
				row[j] = row[j]*w.Data[at+j] + sa*b.Data[at+j] + v.Data[at+i]*k.Data[at+j]
				y[i] += row[j] * r.Data[at+j]
			}
		}
	})
}

// SSMConv returns Σᵢ x[t + i, c]·kernel[i, c] at (c, t).
func SSMConv(x, kernel Tensor) Tensor {
	ne := [4]int64{x.Ne[1], x.Ne[0] - kernel.Ne[0] + 1, x.Ne[2], 1}
	return generate(ne, func(c, t, s, _ int64) float64 {
		total := 0.0
		for i := range kernel.Ne[0] {
			total += x.At(t+i, c, s, 0) * kernel.At(i, c, 0, 0)
		}
		return total
	})
}

// SSMScan returns y, of x's shape, and then the states, as a vector: S ← exp(dt·a)·S + dt·x·b, y = Σ S·c, with
// dt = softplus(dt).
func SSMScan(state, x, dt, a, b, c, ids Tensor) Tensor {
	d, n, heads := state.Ne[0], x.Ne[0], x.Ne[1]
	size := d * n * heads
	sequences := x.Ne[3]
	y := New(x.Ne[:]...)
	states := New(size * sequences)
	perGroup := heads / b.Ne[1]
	for q := range sequences {
		s := states.Data[q*size : (q+1)*size]
		from := int64(ids.Data[q]) * size
		copy(s, state.Data[from:from+size])
		for t := range x.Ne[2] {
			for h := range heads {
				step := softplus(dt.At(h, t, q, 0))
				for i := range n {
					total := 0.0
					for j := range d {
						cell := &s[j+d*(i+n*h)]
						*cell = *cell*math.Exp(step*a.At(j%a.Ne[0], h, 0, 0)) + step*x.At(i, h, t, q)*b.At(j, h/perGroup, t, q)
						total += *cell * c.At(j, h/perGroup, t, q)
					}
					y.Set(total, i, h, t, q)
				}
			}
		}
	}
	return From(append(y.Data, states.Data...))
}

// afterEach runs a recurrence on all tokens, with a number of outputs per token, and on ever fewer tokens. It
// returns the outputs, then the states after each token, the last first.
func afterEach(tokens, outputs int64, run func(tokens int64) Tensor) []float64 {
	out := append([]float64(nil), run(tokens).Data[:outputs*tokens]...)
	for t := tokens; t > 0; t-- {
		out = append(out, run(t).Data[outputs*t:]...)
	}
	return out
}

// first returns the first n elements along a dimension.
func (t Tensor) first(dim int, n int64) Tensor {
	ne := t.Ne
	ne[dim] = n
	return generate(ne, t.At)
}

// SSMScanStates is SSMScan with the states after each token, the last first.
func SSMScanStates(state, x, dt, a, b, c, ids Tensor) Tensor {
	return From(afterEach(x.Ne[2], x.Ne[0]*x.Ne[1]*x.Ne[3], func(n int64) Tensor {
		return SSMScan(state, x.first(2, n), dt.first(1, n), a, b.first(2, n), c.first(2, n), ids)
	}))
}

// GatedDeltaNetStates is GatedDeltaNet with the states after each token, the last
// first.
func GatedDeltaNetStates(q, k, v, g, beta, state Tensor) Tensor {
	all := afterEach(v.Ne[2], v.Ne[0]*v.Ne[1]*v.Ne[3], func(n int64) Tensor {
		return GatedDeltaNet(q.first(2, n), k.first(2, n), v.first(2, n), g.first(2, n), beta.first(2, n), state)
	})
	row := v.Ne[0] * v.Ne[1]
	return From(all, row, int64(len(all))/row)
}

// GatedDeltaNet returns y and then the states, in rows of n·heads: S ← diag(exp g)·S, S ← S + beta·k·(v −
// Sᵀk)ᵀ, y = Sᵀq/√n. The states are transposed.
func GatedDeltaNet(q, k, v, g, beta, state Tensor) Tensor {
	n, heads, tokens, sequences := v.Ne[0], v.Ne[1], v.Ne[2], v.Ne[3]
	y := New(v.Ne[:]...)
	states := state.Clone()
	for b := range sequences {
		for h := range heads {
			s := states.Data[(b*heads+h)*n*n:][:n*n] // s[j·n + i] is S[i, j]
			for t := range tokens {
				key, query := k.row(h%k.Ne[1], t, b), q.row(h%q.Ne[1], t, b)
				for j := range n {
					row := s[j*n : (j+1)*n]
					seen := 0.0
					for i := range n {
						row[i] *= math.Exp(g.At(i%g.Ne[0], h, t, b))
						seen += row[i] * key[i]
					}
					delta := beta.At(0, h, t, b) * (v.At(j, h, t, b) - seen)
					total := 0.0
					for i := range n {
						row[i] += delta * key[i]
						total += row[i] * query[i]
					}
					y.Set(total/math.Sqrt(float64(n)), j, h, t, b)
				}
			}
		}
	}
	return From(append(y.Data, states.Data...), n*heads, tokens*sequences+n*sequences)
}

// SolveTri returns the x [m, n] with a·x = b for a lower triangular a [n, n].
func SolveTri(a, b Tensor) Tensor {
	x := b.Clone()
	eachRow([4]int64{1, b.Ne[0], b.Ne[2], b.Ne[3]}, func(col, i2, i3 int64) {
		for row := range a.Ne[1] {
			v := b.At(col, row, i2, i3)
			for j := range row {
				v -= a.At(j, row, i2, i3) * x.At(col, j, i2, i3)
			}
			x.Set(v/a.At(row, row, i2, i3), col, row, i2, i3)
		}
	})
	return x
}
