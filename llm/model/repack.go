package model

import (
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/device"
)

// repack copies the matrices as sessions on the device multiply them fastest.
func (m *Model) repack(o LoadOptions) error {
	repacking := device.RepackingOf(o.Layout)
	if repacking == nil {
		return nil
	}
	var err error
	m.repacked, err = repacking.Repack(m.gguf, m.MatrixGroups(), o.Sequences)
	return err
}

// RepackedMatrices are the copies of matrices, nil when sessions compute with the weights as they are.
func (m *Model) RepackedMatrices() nn.Repacked { return m.repacked }

// MatrixGroups are the matrices of linear layers. Queries, keys and values may lie in one: of
// the feed-forward network's the results would lie so far apart that a prompt took 8 % longer.
func (m *Model) MatrixGroups() []nn.MatrixGroup {
	var list []nn.MatrixGroup
	for _, weights := range m.arch.Groups() {
		g := nn.MatrixGroup{Together: weights[0].Kind == "attn_q"}
		for _, w := range weights {
			g.Matrices = append(g.Matrices, m.weights[w.Name])
		}
		list = append(list, g)
	}
	return list
}
