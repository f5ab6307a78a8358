package nn

import (
	"math"

	"github.com/goggml/ggml"
)

// RWKV 7 (arXiv 2503.14456) keeps a matrix S for each head, zero at the start of a sample. For each token:
//
//	S ← diag(exp(g))·S + b·(Sᵀ·a)ᵀ + k·vᵀ,  y = Sᵀ·r
//
// Its training form is the delta rule with two steps a token: the first decays, and corrects what a/exp(g) reads after the
// decay by b; the second writes v under k. exp(g) is at least exp(−0.61), so the division is safe.

// An RWKV7 holds the operands of the recurrence.
type RWKV7 struct {
	R, K, V *Value // [size, heads, n]
	G       *Value // logarithms of decays, [size, heads, n]
	A, B    *Value // [size, heads, n]
	Rows    int64  // of equal length
	Packed  bool   // a row may hold several samples
	Chunk   int64  // tokens of a chunk; 0: half of chunkLength
}

// RWKV7 returns y [size, heads, n] of whole sequences.
func (t *Tape) RWKV7(o RWKV7) *Value {
	size := o.V.T.Dim(0)
	zeros := t.zeros(o.V)
	rule := DeltaRule{
		Q: t.twoSteps(zeros, t.Scale(o.R, float32(math.Sqrt(float64(size))))), V: t.twoSteps(zeros, o.V),
		K: t.twoSteps(o.B, o.K), Read: t.twoSteps(t.Mul(t.Scale(o.A, -1), t.Exp(t.Scale(o.G, -1))), zeros), G: t.twoSteps(o.G, zeros),
		Rows: o.Rows, Packed: o.Packed, Chunk: 2 * o.Chunk, Steps: 2,
	}
	rule.Beta = t.ones(rule.V)
	return t.second(t.GatedDelta(rule))
}

// zeros returns zeros of x's shape.
func (t *Tape) zeros(x *Value) *Value { return Input(t.C.Fill(contiguous(t.C, x.T), 0)) }

// ones returns ones [heads, n] for x [size, heads, n].
func (t *Tape) ones(x *Value) *Value {
	c, heads, n := t.C, x.T.Dim(1), x.T.Dim(2)
	first := c.View(x.T, []int64{1, heads, n}, []int64{x.T.Stride(1), x.T.Stride(2)}, 0)
	return Input(c.Reshape(c.Fill(c.Cont(first), 1), heads, n))
}

// twoSteps puts two vectors for each token one after the other, [size, heads, n] twice → [size, heads, 2·n].
func (t *Tape) twoSteps(first, second *Value) *Value {
	flat := func(x *Value) *Value { return t.Flat(t.Contiguous(x)) }
	x := t.Join(flat(first), flat(second))
	return t.reshape(x, t.C.Reshape(x.T, first.T.Dim(0), first.T.Dim(1), 2*first.T.Dim(2)))
}

// second returns the second of two vectors for each token, [size, heads, 2·n] → [size, heads, n].
func (t *Tape) second(x *Value) *Value {
	size, heads, n := x.T.Dim(0), x.T.Dim(1), x.T.Dim(2)/2
	both := t.reshape(x, t.C.Reshape(x.T, 2*size*heads, n))
	return t.Heads(t.Contiguous(t.Split(both, size*heads, size*heads)[1]), heads)
}

// RWKV7Step computes the recurrence for the next tokens of sequences, with states of size·size·heads elements. The size is a
// multiple of 64.
var RWKV7Step = &Op[Next[RWKV7], Stepped]{func(t *Tape, o Next[RWKV7]) Stepped {
	c, v := t.C, o.In.V.T
	of := func(x *Value) *ggml.Tensor { return contiguous(c, x.T) }
	all := c.RWKV7(ggml.RWKV7Operands{
		R: of(o.In.R), W: c.Exp(of(o.In.G)), K: of(o.In.K), V: of(o.In.V), A: of(o.In.A), B: of(o.In.B), State: o.Before(),
	})
	return stepped(c, all, v.Dim(0), v.Dim(1), v.Dim(2), o.Slots)
}}
