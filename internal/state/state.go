// Package state holds what a sequence keeps of a part between passes: keys and values, the last
// tokens of a convolution, or the matrix of a recurrent layer.
//
// A layer with a sliding window keeps a ring: a position takes the row of the one that left the
// window. A state says to which positions it can be rewound; package infer computes the rest again.
package state

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/goggml/ggml"
)

// A State is one kind of thing that sequences keep of a part, each in a slot of its own. It is used by
// one goroutine.
type State interface {
	// Prepare readies a slot for a pass after which its sequence ends at a position, and which
	// may look at what lies before another.
	Prepare(slot, end, before int) error
	// Commit says that the sequence of a slot now ends at a position, after a pass.
	Commit(slot, end int) error
	// Rewind ends the sequence of a slot at a position that the state can restore: the
	// nearest at or before n. Anything may follow.
	Rewind(slot, n int) (at int, err error)
	// Copy makes the sequence of a slot the beginning of another one's, up to the nearest
	// position at or before n that the state can restore.
	Copy(dst, src, n int) (at int, err error)
}

// A Tree is the states of a part: of its own, any number of any kinds, and of the parts that it consists of.
// Graphs of whole sequences have a nil tree.
type Tree struct {
	Own   []State
	Parts []*Tree
}

// Part returns the tree of a part of the part.
func (t *Tree) Part(i int) *Tree {
	if t == nil {
		return nil
	}
	return t.Parts[i]
}

// All returns all states of the tree: its own first, then the states of its parts.
func (t *Tree) All() []State {
	all := slices.Clone(t.Own)
	for _, part := range t.Parts {
		all = append(all, part.All()...)
	}
	return all
}

// Options are the settings of a new state.
type Options struct {
	// NewTensor makes a tensor, whose memory is allocated once all states are made.
	NewTensor func(t ggml.Type, shape ...int64) *ggml.Tensor
	Type      ggml.Type // of keys and values
	Slots     int       // sequences
	Length    int       // positions of each
	Batch     int       // the most that a pass adds to one
	Full      bool      // keep all positions, also those that no query will see any more
}

// MaxSlots is the most sequences of a session.
const MaxSlots = 1 << 16

// check validates options before anything is allocated for each slot.
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

// A Pass is the sequences that a graph continues, each by as many tokens. Their slots are adjacent.
type Pass struct {
	First, Slots int64
	Attended     int64 // positions of a slot that take part
}
