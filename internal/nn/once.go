package nn

import "github.com/goggml/ggml"

// Once computes a tensor [m, n] that has a column for each token and lets no gradient through,
// and keeps it where a checkpoint computes its function again: from an input that is kept
// rounded, a router might choose other experts. Nothing else of the function takes memory until
// then.
func (t *Tape) Once(compute func() *ggml.Tensor) *ggml.Tensor {
	if t.memo == nil {
		return compute()
	}
	return t.memo.once(t, compute)
}

// A memo holds what Once computed, by its calls in a function, and for chunks of the tokens; and what Expose was given.
type memo struct {
	calls   [][]keptColumns
	exposed []*Value
}

type keptColumns struct {
	tokens columnRange
	x      *ggml.Tensor
}

// A memoCursor is at the next call of Once in a function, for some of the tokens.
type memoCursor struct {
	memo    *memo
	call    int
	exposed int // calls of Expose so far
	tokens  columnRange
	again   bool // the function is computed again
}

// newMemo is at the first call, for the tokens of x.
func (t *Tape) newMemo(x *Value) memoCursor {
	return memoCursor{memo: &memo{}, tokens: columnRange{t.column, t.column + x.T.Dim(1)}}
}

func (m *memoCursor) once(t *Tape, compute func() *ggml.Tensor) *ggml.Tensor {
	call := m.call
	m.call++
	if m.again {
		return m.memo.of(t.C, call, m.tokens)
	}
	x := compute()
	if n := m.tokens.to - m.tokens.from; x.Dim(1) != n {
		x = t.C.BuildOp("once", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
			b.Require(false, "it has %d columns, and there are %d tokens; it needs a column for each", x.Dim(1), n)
			return nil
		})
	}
	t.Graph.Expand(x)
	if call == len(m.memo.calls) {
		m.memo.calls = append(m.memo.calls, nil)
	}
	m.memo.calls[call] = append(m.memo.calls[call], keptColumns{m.tokens, x})
	return x
}

// of returns the part for some tokens of what a call computed, perhaps for more tokens at a time.
func (m *memo) of(c *ggml.Context, call int, tokens columnRange) *ggml.Tensor {
	for _, k := range m.calls[call] {
		switch {
		case k.tokens == tokens:
			return k.x
		case k.tokens.from <= tokens.from && tokens.to <= k.tokens.to:
			return columns(c, k.x, columnRange{tokens.from - k.tokens.from, tokens.to - k.tokens.from})
		}
	}
	panic("nn: a function that was computed again called Once for other tokens")
}
