package arch

import (
	"slices"

	"github.com/goggml/ggml/internal/nn"
)

// A Passage is the point at which a computation enters or leaves a layer, in the forward or the backward pass.
type Passage int

// The passages, in the order of a computation. The backward pass ends in the first layer that has something trained,
// without a LeavesBack there; layers before it have no passages back.
const (
	Enters Passage = iota
	Leaves
	EntersBack
	LeavesBack
)

// passes reports whether the graph has the layer, possibly only for keys and values that another layer reads.
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

// watch reports the passages at x to Watch, forward and back.
func (b *Builder) watch(t *nn.Tape, x *nn.Value, layer int, forward, back Passage) *nn.Value {
	if b.Watch == nil {
		return x
	}
	return t.Watch(x, func() { b.Watch(layer, forward) }, func() { b.Watch(layer, back) })
}
