package arch

import (
	"slices"

	"github.com/goggml/ggml/internal/nn"
)

// A Passage is a point of a computation at which it comes to a layer or leaves it, on its way forward or back.
type Passage int

// The passages, in the order of a computation. The backward pass ends in the first layer that has something trained,
// without a LeavesBack there; layers before it have no passages back.
const (
	Enters Passage = iota
	Leaves
	EntersBack
	LeavesBack
)

// passes reports whether the graph has the layer, be it for the keys and values that another reads.
func (b *Builder) passes(layer int) bool {
	return b.Only == nil || slices.Contains(b.Only, layer) || b.sharedBy(layer)
}

// PassedBlocks are the [Architecture.Blocks] of the layers that the graph has.
func (b *Builder) PassedBlocks() (list []int) {
	for layer, block := range b.blocks {
		if b.passes(layer) {
			list = append(list, block)
		}
	}
	return list
}

// watch lets Watch know of a passage at x, and of the one back.
func (b *Builder) watch(t *nn.Tape, x *nn.Value, layer int, forward, back Passage) *nn.Value {
	if b.Watch == nil {
		return x
	}
	return t.Watch(x, func() { b.Watch(layer, forward) }, func() { b.Watch(layer, back) })
}
