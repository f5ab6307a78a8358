package infer

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A StepInput is the next token of a sequence, and memory for the logits [vocab] after it, which
// [Session.Step] allocates if it is nil.
type StepInput struct {
	Sequence *Sequence
	Token    int32
	Logits   []float32
}

// stepScratch is memory that steps reuse.
type stepScratch struct {
	order  []int // of the inputs, by their slots
	starts []int
	tokens []int32
	logits []float32
}

// Step appends a token to each given sequence of the session, in any order, and writes the
// Logits of their next tokens. Sequences in adjacent slots are computed in one pass, which reads the
// weights once for all of them; sequences move to become adjacent as far as there are free slots.
// They may have different adapters: a pass then computes the small products of all open adapters,
// of which the first such step makes a copy. With more than 16, sequences with equal adapters are
// computed in a pass of their own.
//
// If it fails, the sequences are as after a failed [Sequence.Decode], and the contents of
// Logits are undefined.
func (s *Session) Step(ctx context.Context, next []StepInput) error {
	if err := s.acquire("Session.Step"); err != nil {
		return err
	}
	defer s.access.Release()
	if err := s.checkStep(next); err != nil {
		return err
	}
	for _, n := range next {
		if err := n.Sequence.catchUp(ctx); err != nil {
			return err
		}
	}
	groups, m, err := s.groups(next)
	if err != nil {
		return err
	}
	for _, group := range groups {
		if err := s.stepGroup(ctx, group, m); err != nil {
			for _, n := range next {
				err = n.Sequence.restore(err)
			}
			return err
		}
	}
	for _, n := range next {
		n.Sequence.add(n.Token)
	}
	return nil
}

// groups divides the inputs into groups that can share passes: all if their adapters are equal or there is a mixture, which
// is nil if none is needed.
func (s *Session) groups(next []StepInput) (groups [][]StepInput, m *mixture, err error) {
	if !slices.ContainsFunc(next, func(n StepInput) bool { return n.Sequence.adapters != next[0].Sequence.adapters }) {
		return [][]StepInput{next}, nil, nil
	}
	if m, err = s.mix(); m != nil || err != nil {
		return [][]StepInput{next}, m, err
	}
	for _, n := range next {
		i := slices.IndexFunc(groups, func(g []StepInput) bool { return g[0].Sequence.adapters == n.Sequence.adapters })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], n)
	}
	return groups, nil, nil
}

// stepGroup computes the inputs of sequences with equal adapters, or of a mixture.
func (s *Session) stepGroup(ctx context.Context, next []StepInput, m *mixture) error {
	s.sort(next)
	order, err := s.arrange(next)
	if err != nil {
		return err
	}
	for from, to := 0, 0; from < len(order); from = to {
		to = from + neighbours(next, order[from:])
		if err := s.pass(ctx, next, order[from:to], m); err != nil {
			return err
		}
	}
	return nil
}

// checkStep validates the inputs of a step, and allocates their logits.
func (s *Session) checkStep(next []StepInput) error {
	if err := s.checkOpen(); err != nil {
		return err
	}
	if len(next) == 0 {
		return errors.New("the step has no sequences to continue")
	}
	for i := range next {
		n := &next[i]
		err := n.Sequence.CheckOpen()
		if err == nil && n.Sequence.session != s {
			err = errors.New("it belongs to another session")
		}
		if err == nil {
			err = s.d.check(n.Sequence.Len(), []int32{n.Token})
		}
		if n.Logits == nil {
			n.Logits = make([]float32, s.vocab())
		}
		if err == nil {
			err = s.checkRoom(n.Logits)
		}
		if err != nil {
			return fmt.Errorf("sequence %d of the step: %w", i, err)
		}
	}
	order := s.sort(next)
	for i := 1; i < len(order); i++ {
		if next[order[i]].Sequence == next[order[i-1]].Sequence {
			return fmt.Errorf("sequence %d of the step is listed twice", order[i])
		}
	}
	return nil
}

// arrange returns the inputs in the order of their slots. If they have gaps, it moves the last ones into them, and other
// sequences out of the way, as far as free slots allow.
func (s *Session) arrange(next []StepInput) (order []int, err error) {
	order = s.scratch.order
	for n := neighbours(next, order); n < len(order); n = neighbours(next, order) {
		gap, last := next[order[n-1]].Sequence.slot+1, next[order[len(order)-1]].Sequence
		moved, err := true, error(nil)
		if other := s.slots[gap]; other != nil {
			moved, err = s.move(other, s.lastFree())
		}
		if moved && err == nil {
			moved, err = s.move(last, gap)
		}
		if err != nil || !moved {
			return order, err
		}
		order = s.sort(next)
	}
	return order, nil
}

// lastFree returns the last free slot, or −1.
func (s *Session) lastFree() int {
	for slot, q := range slices.Backward(s.slots) {
		if q == nil {
			return slot
		}
	}
	return -1
}

// move moves a sequence to a free slot; −1 is none. It reports false if its states cannot be copied as they are.
func (s *Session) move(q *Sequence, slot int) (bool, error) {
	if slot < 0 {
		return false, nil
	}
	at, err := s.copyPrefix(slot, q, q.computed)
	if err != nil || at != q.computed {
		return false, err
	}
	s.slots[slot], s.slots[q.slot], q.slot = q, nil, slot
	return true, nil
}

// sort returns the indices of the inputs in the order of their slots.
func (s *Session) sort(next []StepInput) []int {
	order := s.scratch.order[:0]
	for i := range next {
		order = append(order, i)
	}
	slices.SortStableFunc(order, func(i, j int) int { return next[i].Sequence.slot - next[j].Sequence.slot })
	s.scratch.order = order
	return order
}

// neighbours returns the number of first inputs in order whose slots are adjacent.
func neighbours(next []StepInput, order []int) int {
	n := 1
	for n < len(order) && next[order[n]].Sequence.slot == next[order[0]].Sequence.slot+n {
		n++
	}
	return n
}

// pass computes tokens of sequences in adjacent slots.
func (s *Session) pass(ctx context.Context, next []StepInput, order []int, m *mixture) error {
	x := &s.scratch
	x.starts, x.tokens = x.starts[:0], x.tokens[:0]
	for _, i := range order {
		x.starts, x.tokens = append(x.starts, next[i].Sequence.Len()), append(x.tokens, next[i].Token)
	}
	first, vocab, l := next[order[0]], s.vocab(), m.pass(next, order)
	if len(order) == 1 {
		return s.d.pass(ctx, l, first.Sequence.slot, x.starts, x.tokens, lastLogits, first.Logits)
	}
	x.logits = slices.Grow(x.logits[:0], len(order)*vocab)[:len(order)*vocab]
	if err := s.d.pass(ctx, l, first.Sequence.slot, x.starts, x.tokens, lastLogits, x.logits); err != nil {
		return err
	}
	for j, i := range order {
		copy(next[i].Logits, x.logits[j*vocab:])
	}
	return nil
}
