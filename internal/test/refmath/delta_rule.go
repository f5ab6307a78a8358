package refmath

import (
	"math"
	"slices"
)

// DeltaRule holds the operands of the gated delta rule: q, k [size, k heads, n, rows], v [size, heads, n, rows], g and beta
// [heads, n, rows], and the first token of each token's sample [n, rows], or nothing.
type DeltaRule struct{ Q, K, V, G, Beta, Starts Tensor }

// deltaToken is what a token does to column j of the state of a head: before, S_j; rest, v_j − exp(g)·S_j·k.
type deltaToken struct {
	before     []float64
	rest       float64
	after      []float64
	start      bool
	beta, keep float64
}

// column goes through the tokens of column j of value head h.
func (d DeltaRule) column(j, h, row int64) []deltaToken {
	state := make([]float64, d.V.Ne[0])
	var tokens []deltaToken
	for t := range d.V.Ne[2] {
		x := deltaToken{beta: d.Beta.At(h, t, row, 0), keep: math.Exp(d.G.At(h, t, row, 0))}
		x.start = t == 0 || d.Starts.Data != nil && d.Starts.At(t, row, 0, 0) >= float64(t)
		if x.start {
			state = make([]float64, len(state))
		}
		key := d.K.row(h%d.K.Ne[1], t, row)
		x.before, x.after = state, slices.Clone(state)
		x.rest = d.V.At(j, h, t, row)
		for i, s := range state {
			x.rest -= x.keep * s * key[i]
		}
		for i := range state {
			x.after[i] = x.keep*state[i] + x.beta*x.rest*key[i]
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
	y := New(d.V.Ne[:]...)
	d.eachColumn(func(j, h, row int64) {
		for t, x := range d.column(j, h, row) {
			sum := 0.0
			for i, q := range d.Q.row(h%d.Q.Ne[1], int64(t), row) {
				sum += x.after[i] * q
			}
			y.Set(sum/math.Sqrt(float64(d.V.Ne[0])), j, h, int64(t), row)
		}
	})
	return y
}

// GatedDeltaRuleBack returns the gradients of q, k, v, g and beta, given the gradient of the result.
func GatedDeltaRuleBack(dy Tensor, d DeltaRule) (grads [5]Tensor) {
	for i, x := range []Tensor{d.Q, d.K, d.V, d.G, d.Beta} {
		grads[i] = New(x.Ne[:]...)
	}
	d.eachColumn(func(j, h, row int64) {
		next := make([]float64, d.V.Ne[0]) // the gradient of the state after a token
		for t, x := range slices.Backward(d.column(j, h, row)) {
			t, shared := int64(t), h%d.K.Ne[1]
			q, k, dq, dk := d.Q.row(shared, t, row), d.K.row(shared, t, row), grads[0].row(shared, t, row), grads[1].row(shared, t, row)
			read, add := dy.At(j, h, t, row)/math.Sqrt(float64(len(next))), 0.0
			for i := range next {
				dq[i] += read * x.after[i]
				next[i] += read * q[i]
				add += next[i] * k[i] // the gradient of beta·rest
			}
			dRest, dKeep := add*x.beta, 0.0
			for i := range next {
				dk[i] += next[i]*x.beta*x.rest - dRest*x.keep*x.before[i]
				next[i] -= dRest * k[i]
				dKeep += next[i] * x.before[i]
				next[i] *= x.keep
			}
			grads[2].Set(dRest, j, h, t, row)
			grads[3].Set(grads[3].At(h, t, row, 0)+dKeep*x.keep, h, t, row, 0)
			grads[4].Set(grads[4].At(h, t, row, 0)+add*x.rest, h, t, row, 0)
			if x.start {
				clear(next)
			}
		}
	})
	return grads
}
