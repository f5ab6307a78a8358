package refmath

import (
	"math"
	"slices"
)

// DeltaRule holds the operands of the gated delta rule: q, k [size, k heads, n, rows], v [size, heads, n, rows], g
// [heads, n, rows] or [size, heads, n, rows], beta [heads, n, rows]. Optional are the first token of each token's sample [n,
// rows], the keys that read the state, of K's shape, and the states before the first tokens [size of k, size of v, heads, rows].
type DeltaRule struct{ Q, K, V, G, Beta, Starts, Read, State Tensor }

// reads returns the keys that read the state.
func (d DeltaRule) reads() Tensor {
	if d.Read.Data == nil {
		return d.K
	}
	return d.Read
}

// deltaToken is what a token does to column j of the state of a head: before, S_j; rest, v_j − (keep·S_j)·read.
type deltaToken struct {
	before, after, keep []float64
	rest, beta          float64
	start               bool
}

// rate returns the index of g of row i of a state.
func (d DeltaRule) rate(i, h, t, row int64) int64 {
	number := (row*d.V.Ne[2]+t)*d.V.Ne[1] + h
	if len(d.G.Data) == len(d.Beta.Data) {
		return number
	}
	return number*d.V.Ne[0] + i
}

// keep returns exp(g) of each row of a state, [size, heads, n, rows].
func (d DeltaRule) keep() Tensor {
	keep := New(d.V.Ne[:]...)
	for i := range keep.Data {
		keep.Data[i] = math.Exp(d.G.Data[i/(len(keep.Data)/len(d.G.Data))])
	}
	return keep
}

// column goes through the tokens of column j of value head h.
func (d DeltaRule) column(keep Tensor, j, h, row int64) []deltaToken {
	state := make([]float64, d.V.Ne[0])
	if d.State.Data != nil {
		copy(state, d.State.row(j, h, row))
	}
	tokens := make([]deltaToken, 0, d.V.Ne[2])
	for t := range d.V.Ne[2] {
		x := deltaToken{beta: d.Beta.At(h, t, row, 0), keep: keep.row(h, t, row)}
		x.start = t == 0 && d.State.Data == nil || d.Starts.Data != nil && d.Starts.At(t, row, 0, 0) >= float64(t)
		if x.start {
			state = make([]float64, len(state))
		}
		key, read := d.K.row(h%d.K.Ne[1], t, row), d.reads().row(h%d.K.Ne[1], t, row)
		x.before, x.after = state, slices.Clone(state)
		x.rest = d.V.At(j, h, t, row)
		for i, s := range state {
			x.rest -= x.keep[i] * s * read[i]
		}
		for i := range state {
			x.after[i] = x.keep[i]*state[i] + x.beta*x.rest*key[i]
		}
		state, tokens = x.after, append(tokens, x)
	}
	return tokens
}

func (d DeltaRule) eachColumn(f func(j, h, row int64)) {
	for row := range d.V.Ne[3] {
		for h := range d.V.Ne[1] {
			for j := range d.V.Ne[0] {
				f(j, h, row)
			}
		}
	}
}

// GatedDeltaRule returns Sᵀ·q/√size after each token, [size, heads, n, rows].
func GatedDeltaRule(d DeltaRule) Tensor {
	y, keep := New(d.V.Ne[:]...), d.keep()
	d.eachColumn(func(j, h, row int64) {
		for t, x := range d.column(keep, j, h, row) {
			sum := 0.0
			for i, q := range d.Q.row(h%d.Q.Ne[1], int64(t), row) {
				sum += x.after[i] * q
			}
			y.Set(sum/math.Sqrt(float64(d.V.Ne[0])), j, h, int64(t), row)
		}
	})
	return y
}

// GatedDeltaRuleStates returns the result of GatedDeltaRule, followed by the states after the last tokens, in a row.
func GatedDeltaRuleStates(d DeltaRule) Tensor {
	y, states, keep := GatedDeltaRule(d), New(d.State.Ne[:]...), d.keep()
	d.eachColumn(func(j, h, row int64) {
		tokens := d.column(keep, j, h, row)
		copy(states.row(j, h, row), tokens[len(tokens)-1].after)
	})
	all := New(int64(len(y.Data) + len(states.Data)))
	copy(all.Data[copy(all.Data, y.Data):], states.Data)
	return all
}

// GatedDeltaRuleBack returns the gradients of q, k, v, g, beta and read, given the gradient of the result. Without reading keys
// the last is the gradient of k, too.
func GatedDeltaRuleBack(dy Tensor, d DeltaRule) (grads [6]Tensor) {
	for i, x := range []Tensor{d.Q, d.K, d.V, d.G, d.Beta} {
		grads[i] = New(x.Ne[:]...)
	}
	grads[5] = grads[1]
	if d.Read.Data != nil {
		grads[5] = New(d.Read.Ne[:]...)
	}
	keep := d.keep()
	d.eachColumn(func(j, h, row int64) {
		next := make([]float64, d.V.Ne[0]) // the gradient of the state after a token
		for t, x := range slices.Backward(d.column(keep, j, h, row)) {
			t, shared := int64(t), h%d.K.Ne[1]
			q, k, by := d.Q.row(shared, t, row), d.K.row(shared, t, row), d.reads().row(shared, t, row)
			dq, dk, dBy := grads[0].row(shared, t, row), grads[1].row(shared, t, row), grads[5].row(shared, t, row)
			read, add := dy.At(j, h, t, row)/math.Sqrt(float64(len(next))), 0.0
			for i := range next {
				dq[i] += read * x.after[i]
				next[i] += read * q[i]
				add += next[i] * k[i] // the gradient of beta·rest
			}
			dRest := add * x.beta
			for i := range next {
				dk[i] += next[i] * x.beta * x.rest
				dBy[i] -= dRest * x.keep[i] * x.before[i]
				next[i] -= dRest * by[i]
				grads[3].Data[d.rate(int64(i), h, t, row)] += next[i] * x.before[i] * x.keep[i]
				next[i] *= x.keep[i]
			}
			grads[2].Set(dRest, j, h, t, row)
			grads[4].Set(grads[4].At(h, t, row, 0)+add*x.rest, h, t, row, 0)
			if x.start {
				clear(next)
			}
		}
	})
	return grads
}
