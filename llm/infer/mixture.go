package infer

import (
	"slices"

	"github.com/goggml/ggml/internal/nn"
)

// maxMixed is the largest number of adapters in a mixture: each costs all sequences its low-rank products.
const maxMixed = 16

// A mixture computes sequences with different adapters in one pass: the products with the model's matrices once for all
// sequences, the low-rank products for each sequence's own adapter. It holds copies of all open adapters.
type mixture struct {
	lowering *lowering
	of       []*Adapters // nil: the session's own
}

// A passLowering computes a pass.
type passLowering struct {
	of     *lowering // nil: the session's own
	owners []int     // the adapter of each sequence, in a mixture
	ends   []int32   // the index of each sequence's last token, if a pass over several has several of each
}

// mix returns the mixture of the session's adapters, made at the first step that needs it; nil if they are too many.
func (s *Session) mix() (*mixture, error) {
	if s.mixed != nil || len(s.adapters) >= maxMixed {
		return s.mixed, nil
	}
	m := &mixture{of: append([]*Adapters{nil}, s.adapters...)}
	list := []nn.Adapters{s.d.lowering.adapters}
	for _, a := range s.adapters {
		list = append(list, a.lowering.adapters)
	}
	var err error
	if m.lowering, err = newLowering(s.d.m, s.d.engine, nn.Mix(list), len(list)); err != nil {
		return nil, err
	}
	s.mixed = m
	return m, nil
}

// closeMixture frees the mixture when other adapters are open than it holds.
func (s *Session) closeMixture() {
	if s.mixed != nil {
		s.d.forget(s.mixed.lowering)
		s.mixed.lowering.close()
		s.mixed = nil
	}
}

// pass returns the lowering of a pass over slots from first on: the adapters' own if the sequences of all inputs have equal
// ones, as they have without a mixture. A slot without an input has the first one's.
func (m *mixture) pass(next []StepInput, order []int, slots int) passLowering {
	first := next[order[0]].Sequence
	if !slices.ContainsFunc(order, func(i int) bool { return next[i].Sequence.adapters != first.adapters }) {
		return passLowering{of: first.adapters.of()}
	}
	owners := slices.Repeat([]int{slices.Index(m.of, first.adapters)}, slots)
	for _, i := range order {
		q := next[i].Sequence
		owners[q.slot-first.slot] = slices.Index(m.of, q.adapters)
	}
	return passLowering{of: m.lowering, owners: owners}
}
