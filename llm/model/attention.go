package model

import (
	"math"

	"github.com/goggml/ggml"
)

// An attention computes softmax(q·kᵀ/√size)·v for one layer, from
// q [size, heads, n, batch] and k, v [size, kv heads, n, batch] to
// [size·heads, n·batch].
type attention interface {
	attend(p *Pass, t *tape, layer int, q, k, v *Var) *Var
}

func (m *Model) attentionScale() float32 { return float32(1 / math.Sqrt(float64(m.HeadSize))) }

// causal is attention within a batch of sequences that all start at position
// 0, with gradients. The queries of the heads that share a key head are folded
// into rows, so that the products sum their gradients.
type causal struct {
	mask *ggml.Tensor // [n, n·heads/kv heads]: 0 where a key counts, −∞ where not
}

// byHead turns [size, heads, n, batch] into [size, n·heads/groups, groups, batch].
func byHead(c *ggml.Context, x *ggml.Tensor, groups int64) *ggml.Tensor {
	size, heads, n, batch := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}), size, n*heads/groups, groups, batch)
}

// byToken is the inverse of byHead.
func byToken(c *ggml.Context, x *ggml.Tensor, heads, n int64) *ggml.Tensor {
	size, batch := x.Dim(0), x.Dim(3)
	x = c.Reshape(x, size, n, heads, batch)
	return c.Cont(c.Permute(x, [4]int{0, 2, 1, 3}))
}

func (a *causal) attend(p *Pass, t *tape, _ int, qv, kv, vv *Var) *Var {
	c, scale := t.c, p.m.attentionScale()
	groups, heads, n := int64(p.m.KVHeads), int64(p.m.Heads), p.length
	q := byHead(c, qv.T, groups) // [size, rows, groups, batch]
	k := byHead(c, kv.T, groups) // [size, n, groups, batch]
	v := byHead(c, vv.T, groups)
	weights := c.SoftMaxExt(c.TiledMulMat(k, q), a.mask, scale, 0) // [n, rows, groups, batch]
	out := c.TiledMulMatX(v, weights)                              // [size, rows, groups, batch]
	y := &Var{needs: qv.needs || kv.needs || vv.needs}
	y.T = c.Reshape(byToken(c, out, heads, n), int64(p.m.HeadSize)*heads, n*p.batch)
	t.record(y, func(dy *ggml.Tensor) {
		dout := byHead(c, c.Reshape(dy, int64(p.m.HeadSize), heads, n, p.batch), groups)
		t.flow(vv, func() *ggml.Tensor { return byToken(c, c.TiledMulMatW(dout, weights), groups, n) })
		dscores := c.SoftMaxBack(c.TiledMulMat(v, dout), weights, scale)
		t.flow(kv, func() *ggml.Tensor { return byToken(c, c.TiledMulMatW(q, dscores), groups, n) })
		t.flow(qv, func() *ggml.Tensor { return byToken(c, c.TiledMulMatX(k, dscores), heads, n) })
	})
	return y
}

// causalMask gives the values of the mask of n positions for folded queries.
func causalMask(n, repeats int64) []float32 {
	mask := make([]float32, n*n*repeats)
	for row := range n * repeats {
		for key := row%n + 1; key < n; key++ {
			mask[row*n+key] = float32(math.Inf(-1))
		}
	}
	return mask
}
