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
	Before   []int32 // tokens before the next one, as of a prompt; with it at most [SessionOptions].Batch
	Token    int32
	Logits   []float32
}

// len returns the number of tokens.
func (n *StepInput) len() int { return len(n.Before) + 1 }

// Step appends a token to each given sequence of the session, in any order, or several to some of them, and writes the
// Logits of their next tokens. Sequences in near slots are computed in one pass, which reads the
// weights once for all of them; see the package comment.
// They may have different adapters: a pass then computes the small products of all open adapters, from
// a copy that the first such step makes. With more than 16, sequences with equal adapters are
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
		n.Sequence.add(n.Before...)
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
	order := s.sort(next)
	if s.together(next, order).inputs < len(order) && !slices.ContainsFunc(next, func(n StepInput) bool { return n.len() > 1 }) {
		var err error
		if order, err = s.arrange(next); err != nil {
			return err
		}
	}
	for len(order) > 0 {
		r := s.together(next, order)
		if err := s.pass(ctx, next, order[:r.inputs], r, m); err != nil {
			return err
		}
		order = order[r.inputs:]
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
			err = s.checkTokens(n)
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

// checkTokens validates the tokens of an input.
func (s *Session) checkTokens(n *StepInput) error {
	if n.len() > s.d.batch {
		return fmt.Errorf("a step adds at most %d tokens to it; there are %d", s.d.batch, n.len())
	}
	if len(n.Before) > 0 {
		if err := s.d.check(n.Sequence.Len(), n.Before); err != nil {
			return err
		}
	}
	return s.d.check(n.Sequence.Len()+len(n.Before), []int32{n.Token})
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
