package nn

import "github.com/goggml/ggml"

// Saved computes a tensor [m, n] with a column for each token and without a gradient. A checkpoint
// keeps the tensor and does not compute it again: from its rounded input, a router could choose
// other experts.
func (t *Tape) Saved(compute func() *ggml.Tensor) *ggml.Tensor {
	if t.memo == nil {
		return compute()
	}
	return t.memo.saved(t, compute)
}

// savedOf is Saved of some of the batch's columns.
func (t *Tape) savedOf(of columnRange, compute func() *ggml.Tensor) *ggml.Tensor {
	if t.memo == nil {
		return compute()
	}
	part := *t.memo
	part.tokens = of
	x := part.saved(t, compute)
	t.memo.call = part.call
	return x
}

// A memo holds the saved tensors of a function, by call and by chunk of tokens, and the values given to Expose.
type memo struct {
	calls   [][]savedColumns
	exposed []*Value
}

type savedColumns struct {
	tokens columnRange
	x      *ggml.Tensor
}

// A memoCursor points to the next call of Saved in a function, for a chunk of tokens.
type memoCursor struct {
	memo      *memo
	call      int
	exposed   int // calls of Expose so far
	tokens    columnRange
	recompute bool // the backward pass recomputes the function
}

// newMemo returns a cursor at the first call, for the tokens of x.
func (t *Tape) newMemo(x *Value) memoCursor {
	return memoCursor{memo: &memo{}, tokens: columnRange{t.column, t.column + x.T.Dim(1)}}
}

func (m *memoCursor) saved(t *Tape, compute func() *ggml.Tensor) *ggml.Tensor {
	call := m.call
	m.call++
	if m.recompute {
		return m.memo.of(t.C, call, m.tokens)
	}
	x := compute()
	if n := m.tokens.to - m.tokens.from; x.Dim(1) != n {
		x = t.C.BuildOp("saved tensor", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
			b.Require(false, "it has %d columns, and there are %d tokens; it needs a column for each", x.Dim(1), n)
			return nil
		})
	}
	t.Graph.Expand(x)
	if call == len(m.memo.calls) {
		m.memo.calls = append(m.memo.calls, nil)
	}
	m.memo.calls[call] = append(m.memo.calls[call], savedColumns{m.tokens, x})
	return x
}

// of returns the columns of some tokens from a call's results, which may cover more tokens.
func (m *memo) of(c *ggml.Context, call int, tokens columnRange) *ggml.Tensor {
	for _, k := range m.calls[call] {
		switch {
		case k.tokens == tokens:
			return k.x
		case k.tokens.from <= tokens.from && tokens.to <= k.tokens.to:
			return columns(c, k.x, columnRange{tokens.from - k.tokens.from, tokens.to - k.tokens.from})
		}
	}
	panic("nn: a function that was computed again called Saved for other tokens")
}
