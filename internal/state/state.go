// Package state holds the states that sequences keep between passes: keys and values, the last tokens of a convolution,
// or the matrix of a recurrent layer.
//
// A layer with a sliding window keeps a ring: a new position overwrites one that has left the window. A state says to
// which positions it can be rewound; package infer recomputes the tokens after them.
package state

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
)

// A State is one kind of state of a part, with a slot per sequence. It is used by one goroutine.
type State interface {
	// Prepare readies a slot for a pass that extends its sequence to end and may read positions before `before`.
	Prepare(slot, end, before int) error
	// Commit ends a successful pass: the slot's sequence now ends at position end.
	Commit(slot, end int) error
	// Rewind truncates a slot's sequence to the last position ≤ n that the state can restore. Other tokens may follow.
	Rewind(slot, n int) (at int, err error)
	// Copy copies a prefix of src's sequence to dst, up to the last position ≤ n that the state can restore.
	Copy(dst, src, n int) (at int, err error)
}

// A Tree holds the states of a part, any number of any kinds, and the trees of its sub-parts. Graphs of whole sequences
// have a nil tree.
type Tree struct {
	Own   []State
	Parts []*Tree
}

// Part returns the tree of sub-part i.
func (t *Tree) Part(i int) *Tree {
	if t == nil {
		return nil
	}
	return t.Parts[i]
}

// All returns all states of the tree: its own, then its parts'.
func (t *Tree) All() []State {
	all := slices.Clone(t.Own)
	for _, part := range t.Parts {
		all = append(all, part.All()...)
	}
	return all
}

// Options are the settings of a new state.
type Options struct {
	// NewTensor creates a tensor. Its memory is allocated after all states are created.
	NewTensor func(t ggml.Type, shape ...int64) *ggml.Tensor
	Type      ggml.Type // of the keys and values
	Slots     int       // number of sequences
	Length    int       // maximum positions per sequence
	Batch     int       // maximum tokens per sequence in a pass
	Full      bool      // keep all positions, even outside of every window
}

// MaxSlots is the maximum number of sequences in a session.
const MaxSlots = 1 << 16

// check validates options, before memory is allocated per slot.
func (o Options) check() error {
	switch {
	case o.NewTensor == nil:
		return errors.New("Options.NewTensor is nil; it makes the tensors of a state")
	case o.Slots < 1 || o.Slots > MaxSlots:
		return fmt.Errorf("states of %d sequences are impossible; there can be 1 to %d", o.Slots, MaxSlots)
	case o.Length < 1 || o.Length > math.MaxInt32:
		return fmt.Errorf("states of %d tokens are impossible; there can be 1 to %d", o.Length, math.MaxInt32)
	case o.Batch < 0:
		return fmt.Errorf("a pass of %d tokens is impossible", o.Batch)
	}
	return nil
}

// A Pass describes the sequences that a graph continues, by equally many tokens each. Their slots are adjacent.
type Pass struct {
	First, Slots int64
	Attended     int64 // positions per slot that queries attend to
}
