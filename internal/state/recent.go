package state

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// recentTokens is the number of vectors kept per sequence. A sequence can be rewound by about as many tokens.
const recentTokens = 32

// A Recent keeps the vectors of the last tokens of each sequence, in two buffers per slot: a pass reads one and writes
// the other, so that a failed pass changes nothing.
type Recent struct {
	before int          // number of previous tokens that a token depends on
	x      *ggml.Tensor // [m, recentTokens·2·slots]
	slots  []recentSlot
}

type recentSlot struct {
	current int // index of the current buffer
	buffers [2]recentBuffer
	begins  bool // empty sequence: the vectors before its first token must be zeroed
}

// beginning is the slot of an empty sequence.
var beginning = recentSlot{buffers: [2]recentBuffer{{first: -recentTokens}, nothing}, begins: true}

// A recentBuffer holds the vectors of recentTokens positions up to end; positions from first to last belong to the
// sequence. Vectors before the first token are zero.
type recentBuffer struct{ end, first, last int }

// NewRecent returns the state for vectors of a width, if a token depends on `before` previous ones.
func NewRecent(o Options, width, before int) (*Recent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if width < 1 || before < 0 {
		return nil, fmt.Errorf("a convolution over %d tokens of %d numbers each is impossible: both must be at least 1", before+1, width)
	}
	if before > recentTokens/2 {
		return nil, fmt.Errorf("a convolution looks at %d tokens before its own; the limit is %d", before, recentTokens/2)
	}
	rows := int64(recentTokens * 2 * o.Slots)
	return &Recent{before: before, x: o.NewTensor(ggml.F32, int64(width), rows), slots: make([]recentSlot, o.Slots)}, nil
}

// row returns the first row of a buffer.
func row(slot, buffer int) int { return (2*slot + buffer) * recentTokens }

// Before returns the tokens x [m, n·slots] of a pass preceded by their previous tokens, [m, before+n, slots], and keeps
// the last ones. A pass of one token moves the others, and joins it to no more than it depends on.
func (r *Recent) Before(t *nn.Tape, p Pass, x *nn.Value) *ggml.Tensor {
	c, m, n, before := t.C, x.T.Dim(0), x.T.Dim(1)/p.Slots, int64(r.before)
	from := r.rows(t, p, "read", 0, recentTokens, func(s recentSlot, slot, start, i int) int {
		b := s.buffers[s.current]
		return row(slot, s.current) + max(0, start-b.end+i) // clamped rows are not read
	})
	old := c.Reshape(c.GetRows(r.x, from), m, recentTokens, p.Slots)
	now := c.Reshape(x.T, m, n, p.Slots)
	moved := recentTokens - min(n, recentTokens)
	r.write(t, p, 0, moved, old)
	r.write(t, p, moved, recentTokens-moved, now)
	if before == 0 {
		return now
	}
	return c.Concat(lastRows(c, old, before), now, 1)
}

// write stores the last n of x [m, rows, slots] in the buffers that the pass writes, from a vector on.
func (r *Recent) write(t *nn.Tape, p Pass, at, n int64, x *ggml.Tensor) {
	if n == 0 {
		return
	}
	c := t.C
	last := lastRows(c, x, n)
	if p.Slots > 1 {
		last = c.Cont(last)
	}
	to := r.rows(t, p, "written", at, n, func(s recentSlot, slot, _, i int) int { return row(slot, 1-s.current) + i })
	t.Graph.Expand(c.SetRows(r.x, c.Reshape(last, x.Dim(0), n*p.Slots), to))
}

// lastRows is a view of the last n rows of x [m, rows, slots].
func lastRows(c *ggml.Context, x *ggml.Tensor, n int64) *ggml.Tensor {
	return c.View(x, []int64{x.Dim(0), n, x.Dim(2)}, []int64{x.Stride(1), x.Stride(2)}, (x.Dim(1)-n)*x.Stride(1))
}

// rows returns the input of row indices of n vectors of each slot, from a vector on.
func (r *Recent) rows(t *nn.Tape, p Pass, what string, at, n int64, of func(s recentSlot, slot, start, i int) int) *ggml.Tensor {
	name := fmt.Sprintf("rows from %d %s of %p", at, what, r)
	return nn.Declare(t.Inputs, name, ggml.I32, []int64{n * p.Slots}, func(f *nn.Feed, rows []int32) {
		for j := range rows {
			i := j / int(n)
			slot := int(p.First) + i
			rows[j] = int32(of(r.slots[slot], slot, int(f.Positions[i*f.Length()]), int(at)+j%int(n)))
		}
	})
}

// Prepare zeroes the vectors before the first token of a sequence.
func (r *Recent) Prepare(slot, _, _ int) error {
	if !r.slots[slot].begins {
		return nil
	}
	r.slots[slot].begins = false
	return withRows(r.x, int64(row(slot, 0)), recentTokens, func(rows *ggml.Tensor) error { return rows.Memset(0) })
}

// nothing is a buffer from which no sequence can continue.
var nothing = recentBuffer{last: -1}

// Commit switches to the buffer that the pass has written.
func (r *Recent) Commit(slot, end int) error {
	s := &r.slots[slot]
	first := max(s.buffers[s.current].first, end-recentTokens)
	s.current = 1 - s.current
	s.buffers[s.current] = recentBuffer{end: end, first: first, last: end}
	return nil
}

// nearest returns the last position ≤ n from which a buffer can continue, or 0.
func (r *Recent) nearest(slot, n int) (at, which int) {
	s := r.slots[slot]
	for _, i := range []int{s.current, 1 - s.current} {
		b := s.buffers[i]
		if end := min(n, b.last); end-r.before >= b.first && end > at {
			at, which = end, i
		}
	}
	return at, which
}

// Rewind truncates the sequence to the nearest position from which a buffer can continue.
func (r *Recent) Rewind(slot, n int) (at int, err error) {
	at, which := r.nearest(slot, n)
	s := &r.slots[slot]
	if at == 0 {
		*s = beginning
		return 0, nil
	}
	s.current = which
	for i := range s.buffers {
		s.buffers[i].last = min(s.buffers[i].last, at)
	}
	return at, nil
}

// Copy copies the buffer that can continue.
func (r *Recent) Copy(dst, src, n int) (at int, err error) {
	at, which := r.nearest(src, n)
	if at == 0 {
		r.slots[dst] = beginning
		return 0, nil
	}
	if err := copyRows(r.x, int64(row(dst, 0)), int64(row(src, which)), recentTokens); err != nil {
		return 0, err
	}
	b := r.slots[src].buffers[which]
	b.last = at
	r.slots[dst] = recentSlot{buffers: [2]recentBuffer{b, nothing}}
	return at, nil
}
