package infer

import (
	"context"
	"slices"
)

// passColumns is how many further tokens take as long as a further pass, which reads the weights.
const passColumns = 16

// A passRange is a number of first inputs of a step that share a pass, over some slots with equally many tokens each.
type passRange struct{ inputs, slots, tokens int }

// stepScratch is memory that steps reuse.
type stepScratch struct {
	order  []int // of the inputs, by their slots
	starts []int
	tokens []int32
	ends   []int32
	logits []float32
}

// together returns the first inputs in order to compute in one pass: those in adjacent slots with equally many tokens. If
// sequences can be cut, also those for which padding, behind sequences and in slots between, takes less time than a pass.
func (s *Session) together(next []StepInput, order []int) passRange {
	first := &next[order[0]]
	r := passRange{1, 1, first.len()}
	for _, i := range order[1:] {
		n := &next[i]
		more := passRange{r.inputs + 1, n.Sequence.slot - first.Sequence.slot + 1, max(r.tokens, n.len())}
		padding := more.slots*more.tokens - r.slots*r.tokens - n.len()
		if padding > 0 && (!s.d.pads || padding > passColumns || !s.hasRoom(first.Sequence.slot, more)) {
			break
		}
		if more.tokens > 1 && more.slots*more.tokens > s.d.together {
			break
		}
		r = more
	}
	return r
}

// hasRoom reports whether the slots of a pass have room for all of its tokens.
func (s *Session) hasRoom(first int, r passRange) bool {
	return !slices.ContainsFunc(s.slots[first:first+r.slots], func(q *Sequence) bool {
		return q != nil && q.computed+r.tokens > s.d.states.length
	})
}

// pass computes the tokens of inputs, and padding where the range has more slots or tokens than they.
func (s *Session) pass(ctx context.Context, next []StepInput, order []int, r passRange, m *mixture) error {
	first, vocab, x := next[order[0]], s.vocab(), &s.scratch
	s.fill(next, order, r)
	l := m.pass(next, order, r.slots)
	if r.slots == 1 {
		return s.d.pass(ctx, l, first.Sequence.slot, x.starts, x.tokens, lastLogits, first.Logits)
	}
	if r.tokens > 1 {
		l.ends = x.ends
	}
	x.logits = slices.Grow(x.logits[:0], r.slots*vocab)[:r.slots*vocab]
	err := s.d.pass(ctx, l, first.Sequence.slot, x.starts, x.tokens, lastLogits, x.logits)
	if cut := s.cutPadding(next, order, r); err == nil {
		err = cut
	}
	if err != nil {
		return err
	}
	for _, i := range order {
		copy(next[i].Logits, x.logits[(next[i].Sequence.slot-first.Sequence.slot)*vocab:])
	}
	return nil
}

// fill writes the starts, tokens and ends of a pass to the scratch memory. The padding is of token 0.
func (s *Session) fill(next []StepInput, order []int, r passRange) {
	x, first := &s.scratch, next[order[0]].Sequence.slot
	x.starts = slices.Grow(x.starts[:0], r.slots)[:r.slots]
	x.ends = slices.Grow(x.ends[:0], r.slots)[:r.slots]
	x.tokens = slices.Grow(x.tokens[:0], r.slots*r.tokens)[:r.slots*r.tokens]
	clear(x.tokens)
	for i, q := range s.slots[first : first+r.slots] {
		x.starts[i], x.ends[i] = 0, int32(i*r.tokens)
		if q != nil {
			x.starts[i] = q.computed
		}
	}
	for _, i := range order {
		n := &next[i]
		row := n.Sequence.slot - first
		at := row*r.tokens + copy(x.tokens[row*r.tokens:], n.Before)
		x.tokens[at], x.ends[row] = n.Token, int32(at)
	}
}

// cutPadding cuts the padding of a pass from the states of its slots. A cache keeps a pass more than its window, so all that
// came before the padding is still there.
func (s *Session) cutPadding(next []StepInput, order []int, r passRange) error {
	if !s.d.pads {
		return nil
	}
	first, x := next[order[0]].Sequence.slot, &s.scratch
	for _, i := range order {
		row := next[i].Sequence.slot - first
		if n := next[i].len(); n < r.tokens {
			if _, err := s.d.states.rewind(first+row, x.starts[row]+n); err != nil {
				return err
			}
		}
		x.ends[row] = -1
	}
	for row, end := range x.ends {
		if end >= 0 {
			if _, err := s.d.states.rewind(first+row, x.starts[row]); err != nil {
				return err
			}
		}
	}
	return nil
}
