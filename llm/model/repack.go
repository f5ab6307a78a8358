package model

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// availableMemory is another function in tests.
var availableMemory = layout.AvailableHostMemory

// resident chooses the experts: sessions multiply them as they are in the file, and a fifth faster in large pages. A
// file that is larger than the memory stays mapped.
func (m *Model) resident(o LoadOptions) func(ggml.GGUFTensor) bool {
	if !o.Repack {
		return nil
	}
	size := int64(0)
	for t := range m.gguf.Tensors() {
		if isRepacked(o.Layout)(m.arch.Weight(t.Name)) {
			size += t.Size
		}
	}
	if size == 0 || size > availableMemory() {
		return nil
	}
	return func(t ggml.GGUFTensor) bool { return m.arch.Weight(t.Name).Role == arch.ExpertMatrices }
}

// isRepacked reports whether sessions prepare a weight of a layout.
func isRepacked(l layout.Layout) func(w *arch.Weight) bool {
	return func(w *arch.Weight) bool { return device.RepackingOf(l, w.Layer, w.Kind) != nil }
}

// repack copies the matrices as sessions on the device multiply them fastest.
func (m *Model) repack(o LoadOptions) error {
	groups := m.MatrixGroups(isRepacked(o.Layout))
	if len(groups) == 0 {
		return nil
	}
	first := groups[0].Matrices[0]
	var err error
	m.repacked, err = device.RepackingOf(o.Layout, first.Layer, first.Kind).Repack(m.gguf, groups, o.Sequences)
	return err
}

// RepackedMatrices returns the repacked copies of matrices; nil if sessions use the weights as they
// are.
func (m *Model) RepackedMatrices() nn.Repacked { return m.repacked }

// MatrixGroups are the matrices of linear layers for which a function is true, nil for all. Queries, keys and values may lie in
// one: of the feed-forward network's the results would lie so far apart that a prompt took 8 % longer.
func (m *Model) MatrixGroups(of func(w *arch.Weight) bool) []nn.MatrixGroup {
	var list []nn.MatrixGroup
	for _, weights := range m.arch.Groups() {
		g := nn.MatrixGroup{Together: weights[0].Kind == "attn_q"}
		for _, w := range weights {
			if of == nil || of(w) {
				g.Matrices = append(g.Matrices, nn.Matrix{Name: w.Name, W: m.weights[w.Name], Layer: w.Layer, Kind: w.Kind})
			}
		}
		if len(g.Matrices) > 0 {
			list = append(list, g)
		}
	}
	return list
}
