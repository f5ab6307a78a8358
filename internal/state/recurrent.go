package state

import (
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// A Recurrent keeps a vector for each sequence: the result of a recurrence over all its tokens. A slot has
// several. A pass reads one and writes another, so that a failed pass changes nothing, and the others are
// snapshots: the vectors at the ends of earlier passes, to which the sequence can be rewound.
type Recurrent struct {
	x     *ggml.Tensor // [m, snapshots·slots]
	slots []recurrentSlot
}

type recurrentSlot struct {
	ends    []int // the position at which each vector's pass ended; none for a vector that is free
	current int   // the vector with which the sequence goes on
	begins  bool  // it has no token yet, and its vector is to be cleared
}

const none = -1

// NewRecurrent makes the state for vectors of a width, with at least two of a slot.
func NewRecurrent(o Options, width, snapshots int) (*Recurrent, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if width < 1 || snapshots < 2 || snapshots > math.MaxInt32/o.Slots {
		return nil, fmt.Errorf("a recurrent state of %d vectors of width %d in a slot is impossible; at least two are needed", snapshots, width)
	}
	r := &Recurrent{slots: make([]recurrentSlot, o.Slots)}
	r.x = o.NewTensor(ggml.F32, int64(width), int64(snapshots*o.Slots))
	for i := range r.slots {
		r.slots[i].ends = make([]int, snapshots)
		r.begin(i)
	}
	return r, nil
}

// begin makes the sequence of a slot one without tokens.
func (r *Recurrent) begin(slot int) {
	s := &r.slots[slot]
	for i := range s.ends {
		s.ends[i] = none
	}
	s.ends[0], s.current, s.begins = 0, 0, true
}

// Read returns the vectors [m, slots] with which the sequences of a pass go on, zeros of those that begin.
func (r *Recurrent) Read(t *nn.Tape, p Pass) *ggml.Tensor { return t.C.GetRows(r.All(t, p)) }

// All returns all vectors [m, n], and the rows I32 [slots] of those with which the sequences of a pass go on.
func (r *Recurrent) All(t *nn.Tape, p Pass) (x, rows *ggml.Tensor) {
	return r.x, r.rows(t, p, "read", func(s *recurrentSlot) int { return s.current })
}

// Write keeps the vectors [m, slots] that a pass leaves.
func (r *Recurrent) Write(t *nn.Tape, p Pass, x *ggml.Tensor) {
	t.Graph.Expand(t.C.SetRows(r.x, x, r.rows(t, p, "written", (*recurrentSlot).next)))
}

// rows is the input of the row of each slot.
func (r *Recurrent) rows(t *nn.Tape, p Pass, what string, of func(s *recurrentSlot) int) *ggml.Tensor {
	return nn.Declare(t.Inputs, fmt.Sprintf("vectors %s of %p", what, r), ggml.I32, []int64{p.Slots}, func(_ *nn.Feed, rows []int32) {
		for i := range rows {
			slot := int(p.First) + i
			rows[i] = int32(r.row(slot, of(&r.slots[slot])))
		}
	})
}

func (r *Recurrent) row(slot, vector int) int64 { return int64(slot*len(r.slots[slot].ends) + vector) }

// next returns the vector that a pass overwrites: a free one, or the snapshot whose loss leaves the smallest gap
// relative to its age. So there are more snapshots of late positions than of early ones.
func (s *recurrentSlot) next() int {
	if free := slices.Index(s.ends, none); free >= 0 {
		return free
	}
	order := slices.Sorted(slices.Values(s.ends)) // the last is the current one's
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

// Prepare clears the vector of a sequence without tokens.
func (r *Recurrent) Prepare(slot, _, _ int) error {
	s := &r.slots[slot]
	if !s.begins {
		return nil
	}
	s.begins = false
	return withRows(r.x, r.row(slot, s.current), 1, func(rows *ggml.Tensor) error { return rows.Memset(0) })
}

// Commit goes on with the vector that the pass has written.
func (r *Recurrent) Commit(slot, end int) error {
	s := &r.slots[slot]
	s.current = s.next()
	s.ends[s.current] = end
	return nil
}

// nearest is the snapshot with the last end at or before n, none if there is only the beginning.
func (r *Recurrent) nearest(slot, n int) (vector int) {
	vector, ends := none, r.slots[slot].ends
	for i, end := range ends {
		if end > 0 && end <= n && (vector == none || end > ends[vector]) {
			vector = i
		}
	}
	return vector
}

// Rewind goes on with a snapshot, and frees later ones.
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

// Copy copies a snapshot.
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
