package model

import (
	"maps"
	"slices"

	"github.com/goggml/ggml/llm/nn"
)

// NewLossGraphBy is NewLossGraph by a lowering.
func (m *Model) NewLossGraphBy(l nn.Lowering, o TrainGraphOptions) (*LossGraph, error) {
	return m.newLossGraph(l, o)
}

// HidingWindows are those of which the graph has an input of first visible keys; 0 is
// that of layers without a window.
func (l *LossGraph) HidingWindows() []int { return slices.Sorted(maps.Keys(l.firstVisible)) }
