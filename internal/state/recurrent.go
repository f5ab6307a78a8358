package state

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A Recurrent keeps one vector per sequence: the state of a recurrence after all its tokens. A slot has several
// vectors. A pass reads one and writes another, so that a failed pass changes nothing. The others are snapshots: states
// at the ends of earlier passes, to which the sequence can be rewound.
type Recurrent struct {
	x     *ggml.Tensor // [m, snapshots·slots]
	parts int          // of a vector, which are copied as rows of their own, so that threads share them
	slots []recurrentSlot
}

type recurrentSlot struct {
	ends    []int // position at which each vector's pass ended; none if the vector is free
	current int   // current vector of the sequence
	begins  bool  // empty sequence: its vector must be zeroed
}

const none = -1

// NewRecurrent returns the state for vectors of a width, with snapshots ≥ 2 vectors per slot.
func NewRecurrent(o Options, width, snapshots int) (*Recurrent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	const parts = 16 // at most
	if width < 1 || snapshots < 2 || snapshots > math.MaxInt32/parts/o.Slots {
		return nil, fmt.Errorf("a recurrent state of %d vectors of width %d in a slot is impossible; at least two are needed", snapshots, width)
	}
	r := &Recurrent{slots: make([]recurrentSlot, o.Slots), parts: parts}
	for width%r.parts != 0 {
		r.parts /= 2
	}
	r.x = o.NewTensor(ggml.F32, int64(width), int64(snapshots*o.Slots))
	for i := range r.slots {
		r.slots[i].ends = make([]int, snapshots)
		r.begin(i)
	}
	return r, nil
}

// begin empties the sequence of a slot.
func (r *Recurrent) begin(slot int) {
	s := &r.slots[slot]
	for i := range s.ends {
		s.ends[i] = none
	}
	s.ends[0], s.current, s.begins = 0, 0, true
}

// Stored returns all vectors [m, snapshots·slots], and the rows I32 [slots] of the current vectors of a pass's sequences,
// which are zeros for empty sequences.
func (r *Recurrent) Stored(t *nn.Tape, p Pass) (x, rows *ggml.Tensor) {
	return r.x, r.rows(t, p, "read", 1, current)
}

// Before returns the current vectors of a pass's sequences, [m, slots].
func (r *Recurrent) Before(t *nn.Tape, p Pass) *ggml.Tensor {
	return t.C.Reshape(t.C.GetRows(r.divided(t.C, r.x), r.rows(t, p, "read", r.parts, current)), r.x.Dim(0), p.Slots)
}

// Written returns the rows I32 [slots] of Stored's vectors that hold the states after a pass. An op that writes them takes the place
// of Write.
func (r *Recurrent) Written(t *nn.Tape, p Pass) *ggml.Tensor {
	return r.rows(t, p, "written", 1, (*recurrentSlot).next)
}

// Write stores the vectors [m, slots] after a pass.
func (r *Recurrent) Write(t *nn.Tape, p Pass, x *ggml.Tensor) {
	t.Graph.Expand(t.C.SetRows(r.divided(t.C, r.x), r.divided(t.C, x), r.rows(t, p, "written", r.parts, (*recurrentSlot).next)))
}

// divided returns vectors x [m, n] as rows of their parts.
func (r *Recurrent) divided(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Reshape(x, x.Dim(0)/int64(r.parts), x.Dim(1)*int64(r.parts))
}

func current(s *recurrentSlot) int { return s.current }

// rows returns the input of row indices of one vector per slot, which has a number of parts.
func (r *Recurrent) rows(t *nn.Tape, p Pass, what string, parts int, of func(s *recurrentSlot) int) *ggml.Tensor {
	name := fmt.Sprintf("vectors in %d parts %s of %p", parts, what, r)
	return nn.Declare(t.Inputs, name, ggml.I32, []int64{p.Slots * int64(parts)}, func(_ *nn.Feed, rows []int32) {
		for i := range rows {
			slot := int(p.First) + i/parts
			rows[i] = int32(r.row(slot, of(&r.slots[slot])))*int32(parts) + int32(i%parts)
		}
	})
}

func (r *Recurrent) row(slot, vector int) int64 { return int64(slot*len(r.slots[slot].ends) + vector) }

// next returns the vector that a pass overwrites: a free one, or the snapshot whose removal leaves the smallest gap
// relative to its age. So late positions have more snapshots than early ones.
func (s *recurrentSlot) next() int {
	if free := slices.Index(s.ends, none); free >= 0 {
		return free
	}
	order := slices.Sorted(slices.Values(s.ends)) // the last one belongs to the current vector
	last, best, least := len(order)-1, 0, 0.0
	for i, end := range order[:last] {
		before := 0
		if i > 0 {
			before = order[i-1]
		}
		if gap := float64(order[i+1]-before) / float64(order[last]-before); i == 0 || gap < least {
			best, least = end, gap
		}
	}
	return slices.Index(s.ends, best)
}

// Prepare zeroes the vector of an empty sequence.
func (r *Recurrent) Prepare(slot, _, _ int) error {
	s := &r.slots[slot]
	if !s.begins {
		return nil
	}
	s.begins = false
	return withRows(r.x, r.row(slot, s.current), 1, func(rows *ggml.Tensor) error { return rows.Memset(0) })
}

// Commit makes the vector that the pass has written the current one.
func (r *Recurrent) Commit(slot, end int) error {
	s := &r.slots[slot]
	s.current = s.next()
	s.ends[s.current] = end
	return nil
}

// nearest returns the snapshot with the last end ≤ n, or none.
func (r *Recurrent) nearest(slot, n int) (vector int) {
	vector, ends := none, r.slots[slot].ends
	for i, end := range ends {
		if end > 0 && end <= n && (vector == none || end > ends[vector]) {
			vector = i
		}
	}
	return vector
}

// Rewind continues from the nearest snapshot, and frees later ones.
func (r *Recurrent) Rewind(slot, n int) (at int, err error) {
	vector := r.nearest(slot, n)
	if vector == none {
		r.begin(slot)
		return 0, nil
	}
	s := &r.slots[slot]
	s.current, at = vector, s.ends[vector]
	for i, end := range s.ends {
		if end > at {
			s.ends[i] = none
		}
	}
	return at, nil
}

// Copy copies the nearest snapshot.
func (r *Recurrent) Copy(dst, src, n int) (at int, err error) {
	if dst == src {
		return r.Rewind(dst, n)
	}
	vector := r.nearest(src, n)
	r.begin(dst)
	if vector == none {
		return 0, nil
	}
	s := &r.slots[dst]
	s.ends[0], s.begins = r.slots[src].ends[vector], false
	return s.ends[0], copyRows(r.x, r.row(dst, 0), r.row(src, vector), 1)
}
