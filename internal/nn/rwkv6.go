package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// RWKV 6 (arXiv 2404.05892) keeps a matrix S for each head, zero at the start of a sample. For each token:
//
//	y = Sᵀ·r + (r·(u ⊙ k))·v,  S ← diag(exp(g))·S + k·vᵀ
//
// Gated linear attention (arXiv 2312.06635) has no u, and reads after it writes: y = Sᵀ·r / √size. Its training form is the delta
// rule without corrections; with a u, each token's r is the query of the token before.

// An RWKV6 holds the operands of the recurrence.
type RWKV6 struct {
	R, K, V *Value       // [size, heads, n]
	G       *Value       // logarithms of decays, [size, heads, n]
	First   *ggml.Tensor // u, a weight [size, heads]; nil: gated linear attention
	Rows    int64        // of equal length
	Packed  bool         // a row may hold several samples
	Chunk   int64        // tokens of a chunk; 0: chunkLength
}

// RWKV6 returns y [size, heads, n] of whole sequences.
func (t *Tape) RWKV6(o RWKV6) *Value {
	size, heads := o.V.T.Dim(0), o.V.T.Dim(1)
	rule := DeltaRule{
		Q: o.R, K: o.K, V: o.V, G: o.G, Read: t.zeros(o.V), Beta: t.ones(o.V),
		Rows: o.Rows, Packed: o.Packed, Chunk: o.Chunk,
	}
	if o.First == nil {
		return t.GatedDelta(rule)
	}
	shifted := func(x *Value, by int) *Value { return t.Heads(t.Shift(t.Flat(t.Contiguous(x)), by), heads) }
	rule.Q = shifted(t.Scale(o.R, float32(math.Sqrt(float64(size)))), -1)
	own := t.Dots(t.MulWeight(o.R, o.First), o.K)
	return t.Add(shifted(t.GatedDelta(rule), 1), t.Mul(o.V, own))
}

// RWKV6Step computes the recurrence for the next tokens of sequences, with states of size·size·heads elements.
var RWKV6Step = &Op[Next[RWKV6], Stepped]{func(t *Tape, o Next[RWKV6]) Stepped {
	c, v, states := t.C, o.In.V.T, o.Before()
	of := func(x *Value) *ggml.Tensor { return contiguous(c, x.T) }
	r, k, values, decays := of(o.In.R), of(o.In.K), of(o.In.V), c.Exp(of(o.In.G))
	var all *ggml.Tensor
	if o.In.First == nil {
		all = c.GatedLinearAttention(ggml.GatedLinearAttentionOperands{K: k, V: values, Q: r, G: decays, State: states})
	} else {
		all = c.RWKV6(ggml.RWKV6Operands{K: k, V: values, R: r, TimeFirst: o.In.First, TimeDecay: decays, State: states})
	}
	return stepped(c, all, v.Dim(0), v.Dim(1), v.Dim(2), o.Slots)
}}
