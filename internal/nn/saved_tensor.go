package nn

import "github.com/goggml/ggml"

// Saved computes a tensor [m, n] with a column for each token and without a gradient. A checkpoint
// keeps the tensor and does not compute it again: a device that rounds otherwise the second time could choose other
// experts.
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
	part := t.memo.of(of)
	x := part.saved(t, compute)
	t.memo.passed(part)
	return x
}

func (m *memoCursor) saved(t *Tape, compute func() *ggml.Tensor) *ggml.Tensor {
	if kept := m.next(); kept != nil {
		return kept
	}
	t.memo.ended = true // what it is made of has no numbers, since it is not computed again
	x := compute()
	t.memo.ended = false
	if n := m.tokens.to - m.tokens.from; x.Dim(1) != n {
		x = t.C.BuildOp("saved tensor", []*ggml.Tensor{x}, func(b *ggml.OpBuilder) *ggml.Tensor {
			b.Require(false, "it has %d columns, and there are %d tokens; it needs a column for each", x.Dim(1), n)
			return nil
		})
	}
	m.keep(t, x)
	return x
}
