package nn

import "github.com/goggml/ggml"

// A memo holds the results of a checkpointed function that are not computed again, by call and chunk of tokens. A call is
// a result's number in the order in which the function computes them; recomputing it has the same order.
type memo struct {
	of    *recomputed // the layer
	calls map[callOf]*ggml.Tensor
}

type callOf struct {
	call   int
	tokens columnRange
}

// A memoCursor points to the next call of a function, for a chunk of tokens.
type memoCursor struct {
	memo      *memo
	call      int
	tokens    columnRange
	recompute bool // the backward pass recomputes the function
	ended     bool // what is computed now is not of the function: its gradient, or a saved tensor
}

// of returns a cursor at the same call for other tokens; nil of nil.
func (m *memoCursor) of(tokens columnRange) *memoCursor {
	if m == nil {
		return nil
	}
	part := *m
	part.tokens = tokens
	return &part
}

// passed moves the cursor to the call of another, which came from it.
func (m *memoCursor) passed(part *memoCursor) {
	if m != nil {
		m.call = part.call
	}
}

// next returns the result of the next call if it has been kept, and moves on.
func (m *memoCursor) next() *ggml.Tensor {
	at := callOf{m.call, m.tokens}
	m.call++
	if !m.recompute {
		return nil
	}
	return m.memo.calls[at]
}

// begins notes where the graph begins to recompute the function.
func (m *memoCursor) begins(g *ggml.Graph) {
	if m != nil {
		m.memo.of.from = g.NumNodes()
	}
}

// keep keeps the result of the last call.
func (m *memoCursor) keep(t *Tape, x *ggml.Tensor) {
	t.Graph.Expand(x)
	m.memo.calls[callOf{m.call - 1, m.tokens}] = x
}

// keepable returns x, a result that a checkpoint may keep, or what it has kept of it.
func (t *Tape) keepable(x *ggml.Tensor) *ggml.Tensor {
	m := t.memo
	if m == nil || m.ended {
		return x
	}
	kept := m.next()
	switch {
	case kept != nil:
		return kept
	case m.recompute && t.Training():
		m.memo.of.results = append(m.memo.of.results, notedResult{m.call - 1, x})
	case m.recompute:
	case m.memo.of.kept[m.call-1]:
		m.keep(t, x)
	}
	return x
}
