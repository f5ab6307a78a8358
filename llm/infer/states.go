package infer

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/state"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/layout"
)

// A graph attends to a multiple of attendedStep positions, so that one graph serves many tokens.
const attendedStep = 256

// states are the states of a session's sequences, each in a slot of its own.
type states struct {
	slots, length int
	ctx           *ggml.Context
	memory        *layout.Memory
	byLayer       []*state.Tree
	all           []state.State
}

func newStates(a *arch.Architecture, o state.Options, l layout.Layout) (*states, error) {
	memory := layout.NewMemory(l)
	s, err := layOutStates(a, o, memory.Add)
	if err != nil {
		return nil, err
	}
	s.memory = memory
	if err := memory.Allocate(); err != nil {
		s.close()
		return nil, fmt.Errorf("a KV cache of %d positions: %w; use a smaller context", s.length*s.slots, err)
	}
	return s, nil
}

// layOutStates makes states without memory and passes their tensors to add.
func layOutStates(a *arch.Architecture, o state.Options, add func(layer int, kind layout.Kind, tensors ...*ggml.Tensor)) (*states, error) {
	s := &states{slots: o.Slots, length: o.Length, ctx: ggml.NewContext()}
	options := func(layer int) state.Options {
		o.NewTensor = func(t ggml.Type, shape ...int64) *ggml.Tensor {
			x := s.ctx.NewTensor(t, shape...)
			add(layer, layout.KVCache, x)
			return x
		}
		return o
	}
	var err error
	if s.byLayer, err = a.NewStates(options); err != nil {
		s.close()
		return nil, err
	}
	for _, tree := range s.byLayer {
		s.all = append(s.all, tree.All()...)
	}
	return s, nil
}

func (s *states) close() {
	if s != nil {
		s.memory.Close()
		s.ctx.Close()
	}
}

// attended returns the number of positions that a graph attends to if n are in use.
func (s *states) attended(n int) int {
	return min((n+attendedStep-1)/attendedStep*attendedStep, s.length)
}

// prepare prepares a slot for a pass that may read the positions [0, before) and after which
// the sequence ends at position end.
func (s *states) prepare(slot, end, before int) error {
	for _, x := range s.all {
		if err := x.Prepare(slot, end, before); err != nil {
			return err
		}
	}
	return nil
}

func (s *states) commit(slot, end int) error {
	for _, x := range s.all {
		if err := x.Commit(slot, end); err != nil {
			return err
		}
	}
	return nil
}

// rewind ends the sequence of a slot at the nearest position at or before n that all states can
// restore.
func (s *states) rewind(slot, n int) (at int, err error) {
	return nearest(s.all, n, func(x state.State, n int) (int, error) { return x.Rewind(slot, n) })
}

// copy makes the sequence of a slot the beginning of another one's, up to the nearest position at
// or before n that all states can restore.
func (s *states) copy(dst, src, n int) (at int, err error) {
	return nearest(s.all, n, func(x state.State, n int) (int, error) { return x.Copy(dst, src, n) })
}

// nearest applies do to all states until they agree on a position at or before n.
func nearest(all []state.State, n int, do func(x state.State, n int) (at int, err error)) (int, error) {
	for agreed := false; !agreed; {
		agreed = true
		for _, x := range all {
			at, err := do(x, n)
			if err != nil {
				return 0, err
			}
			if at != n {
				n, agreed = at, false
			}
		}
	}
	return n, nil
}

// rewind ends the sequence of a slot at the nearest position at or before n that can be restored.
func (s *Session) rewind(slot, n int) (at int, err error) {
	if s.d.whole {
		n = 0
	}
	return s.d.states.rewind(slot, restorable(n))
}

// copyPrefix copies the states of the first n tokens of a sequence to a slot, up to the nearest
// position that can be restored.
func (s *Session) copyPrefix(dst int, src *Sequence, n int) (at int, err error) {
	if n < src.computed { // at src.computed the states are current: nothing to restore
		n = restorable(n)
	}
	return s.d.states.copy(dst, src.slot, n)
}

// restorable returns the nearest position at or before n that tests allow.
func restorable(n int) int {
	if testhook.RestoreStep > 0 {
		return n - n%testhook.RestoreStep
	}
	return n
}
