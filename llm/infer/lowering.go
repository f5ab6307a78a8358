package infer

import (
	"cmp"
	"maps"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// A lowering decides how the graphs of a session are computed: by the engine's lowerings, with
// the products that these prepare from the model's matrices and the adapters.
type lowering struct {
	prefill, decode nn.Lowerings
	adapters        nn.Adapters
	fused           map[nn.RepackingOps]nn.FusedOps
}

func newLowering(m *model.Model, e *device.Engine, adapters nn.Adapters) (*lowering, error) {
	l := &lowering{adapters: adapters, fused: map[nn.RepackingOps]nn.FusedOps{}}
	var err error
	if l.prefill, err = l.prepare(m, e, device.Prefill, adapters); err == nil {
		l.decode, err = l.prepare(m, e, device.Decode, adapters)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// prepare makes the lowerings of a phase whole.
func (l *lowering) prepare(m *model.Model, e *device.Engine, p device.Phase, adapters nn.Adapters) (nn.Lowerings, error) {
	of, err := e.Lowerings(device.Use{Phase: p})
	if err != nil {
		return nil, err
	}
	whole := map[*nn.Lowering]*nn.Lowering{}
	for _, w := range m.Architecture().Weights() {
		bare := of(w.Layer, w.Kind)
		if whole[bare] != nil || bare.Repacking == nil {
			continue
		}
		own := *bare
		if own.Fused, err = l.fuse(m, own.Repacking, of, adapters); err != nil {
			return nil, err
		}
		whole[bare] = &own
	}
	return func(layer int, kind string) *nn.Lowering {
		bare := of(layer, kind)
		return cmp.Or(whole[bare], bare)
	}, nil
}

// fuse prepares the products of lowerings once for all graphs.
func (l *lowering) fuse(m *model.Model, by nn.RepackingOps, of nn.Lowerings, adapters nn.Adapters) (nn.FusedOps, error) {
	if l.fused[by] == nil {
		groups := m.MatrixGroups(func(w *arch.Weight) bool { return of(w.Layer, w.Kind).Repacking == by })
		f, err := by.Fuse(m.RepackedMatrices(), groups, ofProducts(m, adapters))
		if err != nil {
			return nil, err
		}
		l.fused[by] = f
	}
	return l.fused[by], nil
}

// ofProducts returns the adapters of products. Adapters of an embedding act on the lookup only,
// also if it is the head.
func ofProducts(m *model.Model, adapters nn.Adapters) nn.Adapters {
	list := maps.Clone(adapters)
	maps.DeleteFunc(list, func(name string, _ []nn.LoRAPair) bool {
		return m.Architecture().Weight(name).Role == arch.Embedding
	})
	return list
}

// tape builds a graph of so many tokens of each sequence.
func (l *lowering) tape(c *ggml.Context, g *ggml.Graph, tokens int) *nn.Tape {
	of := l.prefill
	if tokens == 1 {
		of = l.decode
	}
	return &nn.Tape{C: c, Graph: g, Lowering: of(nn.NoLayer, ""), Layers: of, Adapters: l.adapters}
}

func (l *lowering) close() {
	if l == nil {
		return
	}
	for _, f := range l.fused {
		f.Close()
	}
}
