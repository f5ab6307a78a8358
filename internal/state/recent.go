package state

import (
	"fmt"
	"math"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// recentTokens is the number of vectors kept per sequence, and about as many tokens can be rewound. A pass writes at most half
// of them.
const recentTokens = 64

// A Recent keeps the vectors of the last tokens of each sequence, in a ring per slot. A pass writes behind the vectors that it
// reads, so that a failed pass changes nothing.
type Recent struct {
	before int          // number of previous tokens that a token depends on
	x      *ggml.Tensor // [m, recentTokens·slots]
	slots  []recentSlot
}

// A recentSlot is the ring of a sequence. The vectors of its last tokens lie before next, one after the other.
type recentSlot struct {
	at        [recentTokens]int // position of each vector's token; free if there is none. Vectors before the first token are zero
	end, next int               // the sequence's length, and the vector that the next pass writes first
	begins    bool              // empty sequence: the vectors before its first token must be zeroed
}

const free = math.MinInt

// NewRecent returns the state for vectors of a width, if a token depends on `before` previous ones.
func NewRecent(o Options, width, before int) (*Recent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if width < 1 || before < 0 {
		return nil, fmt.Errorf("a convolution over %d tokens of %d numbers each is impossible: both must be at least 1", before+1, width)
	}
	if before > recentTokens/4 {
		return nil, fmt.Errorf("a convolution looks at %d tokens before its own; the limit is %d", before, recentTokens/4)
	}
	r := &Recent{before: before, x: o.NewTensor(ggml.F32, int64(width), int64(recentTokens*o.Slots)), slots: make([]recentSlot, o.Slots)}
	for i := range r.slots {
		r.begin(i)
	}
	return r, nil
}

// begin empties the sequence of a slot.
func (r *Recent) begin(slot int) {
	s := recentSlot{next: r.before, begins: true}
	for i := range s.at {
		s.at[i] = free
		if i < r.before {
			s.at[i] = i - r.before
		}
	}
	r.slots[slot] = s
}

// written returns how many of a pass's n tokens are kept.
func written(n int) int { return min(n, recentTokens/2) }

// Before returns the tokens of a pass x [m, n·slots] by slots, now [m, n, slots], and those before each slot's first,
// [m, before, slots], or nil if no token depends on others. It keeps the last ones.
func (r *Recent) Before(t *nn.Tape, p Pass, x *nn.Value) (before, now *ggml.Tensor) {
	c, m, n := t.C, x.T.Dim(0), x.T.Dim(1)/p.Slots
	row, kept := x.T.Stride(1), int64(written(int(n)))
	now = c.View(x.T, []int64{m, n, p.Slots}, []int64{row, n * row}, 0)
	last := t.Contiguous(nn.Input(c.View(now, []int64{m, kept, p.Slots}, []int64{row, n * row}, (n-kept)*row)))
	t.Graph.Expand(c.SetRows(r.x, c.Reshape(last.T, m, kept*p.Slots), r.rows(t, p, 0, kept)))
	if b := int64(r.before); b > 0 {
		before = c.Reshape(c.GetRows(r.x, r.rows(t, p, -b, b)), m, b, p.Slots)
	}
	return before, now
}

// rows returns the input of the rows of n vectors of each slot, the first of them at a distance from next.
func (r *Recent) rows(t *nn.Tape, p Pass, from, n int64) *ggml.Tensor {
	return nn.Declare(t.Inputs, fmt.Sprintf("%d rows from %d on of %p", n, from, r), ggml.I32, []int64{n * p.Slots}, func(_ *nn.Feed, rows []int32) {
		for j := range rows {
			slot := int(p.First) + j/int(n)
			rows[j] = int32(slot*recentTokens + inRing(r.slots[slot].next+int(from)+j%int(n)))
		}
	})
}

// inRing returns the index in a ring.
func inRing(i int) int { return (i + recentTokens) % recentTokens }

// Prepare zeroes the vectors before the first token of a sequence, and frees those that the pass overwrites.
func (r *Recent) Prepare(slot, end, _ int) error {
	s := &r.slots[slot]
	for i := range written(end - s.end) {
		s.at[inRing(s.next+i)] = free
	}
	begins := s.begins
	if s.begins = false; !begins || r.before == 0 {
		return nil
	}
	return withRows(r.x, int64(slot*recentTokens), r.before, func(rows *ggml.Tensor) error { return rows.Memset(0) })
}

// Commit adds the tokens of the pass.
func (r *Recent) Commit(slot, end int) error {
	s := &r.slots[slot]
	for at := end - written(end-s.end); at < end; at++ {
		s.at[s.next] = at
		s.next = inRing(s.next + 1)
	}
	s.end = end
	return nil
}

// follows reports whether a sequence can continue behind a vector: whether the vectors that a token depends on lie before it.
func (r *Recent) follows(s *recentSlot, vector int) bool {
	for i := range max(1, r.before) {
		if s.at[inRing(vector-i)] != s.at[vector]-i {
			return false
		}
	}
	return s.at[vector] != free
}

// Rewind truncates the sequence to the last position ≤ n from which it can continue.
func (r *Recent) Rewind(slot, n int) (at int, err error) {
	s := &r.slots[slot]
	last := none
	for i, p := range s.at {
		if p < n && p >= at && r.follows(s, i) {
			last, at = i, p+1
		}
	}
	if last == none {
		r.begin(slot)
		return 0, nil
	}
	s.end, s.next = at, inRing(last+1)
	for i, p := range s.at {
		if p >= at {
			s.at[i] = free
		}
	}
	return at, nil
}

// Copy copies the ring, and truncates it.
func (r *Recent) Copy(dst, src, n int) (at int, err error) {
	if dst != src {
		r.slots[dst] = r.slots[src]
		if r.slots[src].begins {
			return 0, nil
		}
		if err := copyRows(r.x, int64(dst*recentTokens), int64(src*recentTokens), recentTokens); err != nil {
			r.begin(dst)
			return 0, err
		}
	}
	return r.Rewind(dst, n)
}
