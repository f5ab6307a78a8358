package arch

import (
	"slices"

	"github.com/goggml/ggml/internal/nn"
)

// A LayerEvent is what a layer hook is called for: a computation enters or leaves a layer, in the forward or the backward
// pass.
type LayerEvent int

// The events, in the order of a computation. The backward pass ends in the first layer that has something trained,
// without a LeavesBack there; layers before it have no events of the backward pass.
const (
	Enters LayerEvent = iota
	Leaves
	EntersBack
	LeavesBack
)

// passes reports whether the graph has the layer, possibly only for keys and values that another layer reads.
func (b *Builder) passes(layer int) bool {
	return b.Only == nil || slices.Contains(b.Only, layer) || b.sharedBy(layer)
}

// hook reports the events at x to LayerHook, forward and back.
func (b *Builder) hook(t *nn.Tape, x *nn.Value, layer int, forward, back LayerEvent) *nn.Value {
	if b.LayerHook == nil {
		return x
	}
	return t.Watch(x, func() { b.LayerHook(layer, forward) }, func() { b.LayerHook(layer, back) })
}
