package model

import (
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/kernels"
)

// An attention computes softmax(q·kᵀ/√size)·v for one layer, from
// q [size, heads, n, batch] and k, v [size, kv heads, n, batch] to
// [size·heads, n·batch].
type attention interface {
	attend(p *Pass, t *tape, layer int, q, k, v *Var) *Var
}

func (m *Model) attentionScale() float32 { return float32(1 / math.Sqrt(float64(m.HeadSize))) }

// causal is attention within a batch of sequences that all start at position
// 0, with gradients.
type causal struct{}

func (causal) attend(p *Pass, t *tape, _ int, q, k, v *Var) *Var {
	c, shape := t.c, q.T.Shape()
	operands := kernels.Attention{Q: q.T, K: k.T, V: v.T, Scale: p.m.attentionScale()}
	x := kernels.CausalAttention(c, operands)
	y := &Var{T: c.Reshape(x, shape[0]*shape[1], p.length*p.batch), needs: q.needs || k.needs || v.needs}
	t.record(y, func(dy *ggml.Tensor) {
		dq, dk, dv := kernels.CausalAttentionGrad(c, c.Reshape(dy, shape...), operands)
		t.flow(q, func() *ggml.Tensor { return dq })
		t.flow(k, func() *ggml.Tensor { return dk })
		t.flow(v, func() *ggml.Tensor { return dv })
	})
	return y
}
