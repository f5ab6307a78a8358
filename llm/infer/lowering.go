package infer

import (
	"io"
	"maps"
	"sync"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fused"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/model"
)

// A lowering decides how the graphs of a session are computed: by the engine's tables, with a row for the products that
// it prepares from the model's repacked matrices and the adapters.
type lowering struct {
	prefill, decode nn.Lowerings
	adapters        nn.Adapters
	mixed           int       // number of adapters if each sequence uses one, see [nn.Mix]; 0: each uses all
	fused           io.Closer // prepared products; nil if no table takes them
}

func newLowering(m *model.Model, e *device.Engine, adapters nn.Adapters, mixed int) (*lowering, error) {
	l := &lowering{adapters: adapters, mixed: mixed}
	fuse := sync.OnceValues(func() (row nn.Row, err error) {
		groups := m.MatrixGroups(func(w *arch.Weight) bool { return device.Repacks(e.Layout(), w.Layer, w.Kind) })
		row, l.fused, err = fused.Fuse(m.RepackedMatrices(), groups, ofProducts(m, adapters), mixed)
		return row, err
	})
	var err error
	if l.prefill, err = e.Lowerings(device.Use{Phase: device.Prefill, Fuse: fuse}); err == nil {
		l.decode, err = e.Lowerings(device.Use{Phase: device.Decode, Fuse: fuse})
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
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
	return &nn.Tape{C: c, Graph: g, Lowering: of(nn.NoLayer, ""), Layers: of, Adapters: l.adapters, Mixed: l.mixed}
}

func (l *lowering) close() {
	if l != nil && l.fused != nil {
		l.fused.Close()
	}
}
