package model

import (
	"maps"
	"slices"
)

// HidingWindows are those of which the graph has an input of first visible keys; 0 is
// that of layers without a window.
func (l *LossGraph) HidingWindows() []int { return slices.Sorted(maps.Keys(l.firstVisible)) }
