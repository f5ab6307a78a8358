package infer

import (
	"cmp"
	"io"
	"maps"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// A lowering decides how the graphs of a session are computed: by the engine's tables, with rows for
// the products that these prepare from the model's matrices and the adapters.
type lowering struct {
	prefill, decode nn.Lowerings
	adapters        nn.Adapters
	fused           map[nn.RepackingOps]nn.Row
	closers         []io.Closer // of these
}

func newLowering(m *model.Model, e *device.Engine, adapters nn.Adapters) (*lowering, error) {
	l := &lowering{adapters: adapters, fused: map[nn.RepackingOps]nn.Row{}}
	var err error
	if l.prefill, err = l.prepare(m, e, device.Prefill); err == nil {
		l.decode, err = l.prepare(m, e, device.Decode)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// prepare returns the tables of a phase, with the rows for prepared products.
func (l *lowering) prepare(m *model.Model, e *device.Engine, p device.Phase) (nn.Lowerings, error) {
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
		row, err := l.fuse(m, bare.Repacking, of)
		if err != nil {
			return nil, err
		}
		whole[bare] = bare.With(row)
	}
	return func(layer int, kind string) *nn.Lowering {
		bare := of(layer, kind)
		return cmp.Or(whole[bare], bare)
	}, nil
}

// fuse prepares the products of tables once for all graphs.
func (l *lowering) fuse(m *model.Model, by nn.RepackingOps, of nn.Lowerings) (nn.Row, error) {
	if row, made := l.fused[by]; made {
		return row, nil
	}
	groups := m.MatrixGroups(func(w *arch.Weight) bool { return of(w.Layer, w.Kind).Repacking == by })
	row, closer, err := by.Fuse(m.RepackedMatrices(), groups, ofProducts(m, l.adapters))
	if err == nil {
		l.fused[by], l.closers = row, append(l.closers, closer)
	}
	return row, err
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

// tape returns a tape for a graph with a number of tokens of each sequence.
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
	for _, c := range l.closers {
		c.Close()
	}
}
