package refmodel

import (
	"math"

	"github.com/goggml/ggml/internal/refmath"
)

// attention is softmax(scale·q·kᵀ)·v of each head, causal.
type attention struct {
	headDim, heads, kvHeads int
	scale                   float64
}

// attend computes it for the rows of q, k and v.
func (t *tape) attend(a attention, q, k, v *value) *value {
	n := q.rows()
	y := t.result(n, q.width, q, k, v)
	probs := make([][]float64, a.heads*n)
	for h := range a.heads {
		for i := range n {
			p := make([]float64, i+1)
			for j := range p {
				p[j] = a.scale * dot(a.head(q.row(i), h), a.kvHead(k.row(j), h))
			}
			softmax(p)
			for j, weight := range p {
				addScaled(a.head(y.row(i), h), weight, a.kvHead(v.row(j), h))
			}
			probs[h*n+i] = p
		}
	}
	t.record(y, func() {
		for h := range a.heads {
			for i := range n {
				a.back(h, i, probs[h*n+i], q, k, v, a.head(y.gradRow(i), h))
			}
		}
	})
	return y
}

// back takes the gradient of what head h gathers for query i to q, k and v.
func (a attention) back(h, i int, p []float64, q, k, v *value, d []float64) {
	dp := make([]float64, len(p))
	for j, weight := range p {
		dp[j] = dot(d, a.kvHead(v.row(j), h))
		addScaled(a.kvHead(v.gradRow(j), h), weight, d)
	}
	along := dot(p, dp)
	for j, weight := range p {
		ds := a.scale * weight * (dp[j] - along)
		addScaled(a.head(q.gradRow(i), h), ds, a.kvHead(k.row(j), h))
		addScaled(a.kvHead(k.gradRow(j), h), ds, a.head(q.row(i), h))
	}
}

// head is the part of a vector that query head h has, nil of none.
func (a attention) head(v []float64, h int) []float64 {
	if v == nil {
		return nil
	}
	return v[h*a.headDim : (h+1)*a.headDim]
}

// kvHead is the part of a key or value that query head h uses.
func (a attention) kvHead(v []float64, h int) []float64 { return a.head(v, h*a.kvHeads/a.heads) }

//go:norace
func softmax(x []float64) {
	lse := refmath.LogSumExp(x)
	for i := range x {
		x[i] = math.Exp(x[i] - lse)
	}
}
