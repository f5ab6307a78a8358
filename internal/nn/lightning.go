package nn

import (
	"fmt"

	"github.com/goggml/ggml"
)

// Lightning attention (arXiv 2401.04658) keeps a matrix S for each head, which is zero as a sample begins and decays at a rate
// that does not depend on the tokens:
//
//	S ← exp(g)·S + k·vᵀ,  y = Sᵀ·q
//
// for each token. Training computes it as a scan by chunks of tokens, see [tokenChunks].

// A Lightning are the operands of lightning attention.
type Lightning struct {
	Q, K, V *Value    // [size, heads, n]
	G       []float32 // of each head
	Rows    int64     // of equal length
	Packed  bool      // a row may hold several samples
	Chunk   int64     // tokens of a chunk; 0 is chunkLength
}

// LightningAttention is y [size, heads, n] of whole sequences, with the gradients of Q, K and V.
var LightningAttention = &Op[Lightning, Result[[]*ggml.Tensor]]{func(t *Tape, l Lightning) Result[[]*ggml.Tensor] {
	c, s := t.C, Scan{B: l.K, C: l.Q, Rows: l.Rows, Packed: l.Packed, Chunk: l.Chunk}
	g := Input(c.Repeat(l.rates(t), 1, int64(len(l.G)), l.V.T.Dim(2)))
	f := t.scanChunks(s, l.V, g)
	return Result[[]*ggml.Tensor]{f.merge(f.output()), func(dy *ggml.Tensor) []*ggml.Tensor {
		f := t.scanChunks(s, l.V, g) // again
		of := f.grads(f.split(dy), g.T.Shape())
		return []*ggml.Tensor{of[3], of[2], of[0]}
	}}
}}

// LightningAttention returns y [size, heads, n] of whole sequences.
func (t *Tape) LightningAttention(l Lightning) *Value {
	y := LightningAttention.Build(t, l)
	return t.Op(y.Y, y.Grad, l.Q, l.K, l.V)
}

// LightningStep attends for the next tokens of sequences, with states of size·size·heads elements.
var LightningStep = &Op[Next[Lightning], Stepped]{func(t *Tape, o Next[Lightning]) Stepped {
	c, l, v := t.C, o.In, o.In.V.T
	all := c.GatedLinearAttention(ggml.GatedLinearAttentionOperands{
		K: contiguous(c, l.K.T), V: contiguous(c, v), Q: contiguous(c, l.Q.T), G: c.Repeat(c.Exp(l.rates(t)), v.Shape()...), State: o.Before(), Scale: 1,
	})
	return stepped(c, all, v.Dim(0), v.Dim(1), v.Dim(2), o.Slots)
}}

// rates are G as an input, [1, heads].
func (l Lightning) rates(t *Tape) *ggml.Tensor {
	return Declare(t.Inputs, fmt.Sprintf("rates %v", l.G), ggml.F32, []int64{1, int64(len(l.G))}, func(_ *Feed, x []float32) { copy(x, l.G) })
}
