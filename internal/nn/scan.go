package nn

import "github.com/goggml/ggml"

// A selective scan (Mamba, arXiv 2312.00752) keeps a matrix S [d, size] for each head, zero at the start of a sample. For
// each token:
//
//	S ← exp(Δ·A)·S + Δ·B·xᵀ,  y = Sᵀ·C + D·x,  Δ = log(1 + exp(dt))
//
// If A is a number for each head (Mamba-2), training computes it by chunks of tokens, see [tokenChunks]; if A differs
// between the elements of a state, by pairs of tokens. The backward pass recomputes everything from the operands.

// A Scan holds the operands of a selective scan.
type Scan struct {
	X      *Value       // [size, heads, n]
	DT     *Value       // [heads, n]
	A      *ggml.Tensor // a weight [heads] or [1, heads]; or [d, heads], with heads of one element and one group
	B, C   *Value       // [d, groups, n]; heads of a group follow each other
	D      *ggml.Tensor // a weight [heads] or [1, heads]; nil: none
	Rows   int64        // of equal length
	Packed bool         // a row may hold several samples
	Chunk  int64        // tokens of a chunk; 0: chunkLength
}

// SelectiveScan returns y [size, heads, n] of whole sequences.
func (t *Tape) SelectiveScan(s Scan) *Value {
	heads := s.X.T.Dim(1)
	steps := t.Softplus(s.DT)
	byHead := t.Heads(steps, heads) // [1, heads, n]
	x := t.Mul(s.X, byHead)
	if s.A.NumElements() > heads {
		return s.skip(t, t.elementScan(s, x, steps))
	}
	return s.skip(t, t.headScan(s, x, t.MulHeads(byHead, s.A)))
}

// skip adds D·x to y.
func (s Scan) skip(t *Tape, y *Value) *Value {
	if s.D == nil {
		return y
	}
	return t.Add(y, t.MulHeads(s.X, s.D))
}

// SelectiveScanStep scans the next tokens of sequences, with states of d·size·heads elements.
var SelectiveScanStep = &Op[Next[Scan], Stepped]{func(t *Tape, o Next[Scan]) Stepped {
	c, s, slots := t.C, o.In, o.Slots
	states, rows := o.Stored()
	size, heads, n, d := s.X.T.Dim(0), s.X.T.Dim(1), s.X.T.Dim(2)/slots, s.B.T.Dim(0)
	by := func(x *ggml.Tensor) *ggml.Tensor { return c.Reshape(contiguous(c, x), x.Dim(0), x.Dim(1), n, slots) }
	all := c.SSMScan(ggml.SSMScanOperands{
		State: c.Reshape(states, d, size, heads, states.Dim(1)), X: by(s.X.T), DT: c.Reshape(contiguous(c, s.DT.T), heads, n, slots),
		A: c.Reshape(s.A, s.A.NumElements()/max(1, heads), heads), B: by(s.B.T), C: by(s.C.T), IDs: rows,
	})
	y := stepped(c, all, size, heads, n*slots, slots)
	y.Y = s.skip(t, y.Y)
	return y
}}
