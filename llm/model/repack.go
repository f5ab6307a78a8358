package model

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
)

// resident selects the experts: sessions multiply them in the file's layout, and a fifth faster from large pages. If
// the file is larger than the available memory, they stay mapped.
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

func availableMemory() int64 {
	if testhook.HostMemory > 0 {
		return testhook.HostMemory
	}
	return layout.AvailableHostMemory()
}

// isRepacked returns a function that reports whether sessions repack a weight.
func isRepacked(l layout.Layout) func(w *arch.Weight) bool {
	return func(w *arch.Weight) bool { return device.Repacks(l, w.Layer, w.Kind) }
}

// repack makes copies of the matrices in the layouts that sessions on the device multiply fastest.
func (m *Model) repack(o LoadOptions) (err error) {
	if groups := m.MatrixGroups(isRepacked(o.Layout)); len(groups) > 0 {
		m.repacked, err = fused.Repack(m.gguf, groups, o.Sequences)
	}
	return err
}

// RepackedMatrices returns the repacked copies of matrices, or nil if sessions use the weights as they are.
func (m *Model) RepackedMatrices() *fused.Repacked { return m.repacked }

// MatrixGroups returns the matrices of the linear layers for which of is true, or of all if it is nil. Q, K and V
// may be fused in one group; gate and up of the feed-forward network are not, because the larger stride of their
// results made prefill 8 % slower.
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
