package lossgraph_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

// Whatever a graph keeps, losses and gradients are the same bytes. The more it keeps, the less it computes.
func TestKeptResults(t *testing.T) {
	need.Time(t, "builds many graphs of each architecture")
	forEachArchitecture(t, []ggml.Type{ggml.F32}, func(t *testing.T, m *model.Model) {
		for _, set := range []device.OpSet{device.Kernels, device.Stock} {
			requireEqualWhateverIsKept(t, m, set, 4)
		}
	})
}

// requireEqualWhateverIsKept compares graphs that keep all results, none, and longer and longer beginnings of the list.
func requireEqualWhateverIsKept(t *testing.T, m *model.Model, set device.OpSet, points int) {
	t.Helper()
	s := llmtest.NewLoRASetup(t, m, 3, 0.75)
	e := need.Value(device.New(device.Options{Threads: 1, OpSet: set}))(t)
	defer e.Close()
	batch := llmtest.NewBatch(m.Config().Vocab, archLength)
	o := lossgraph.Options{Length: archLength, Batch: 2, LogitsChunk: 40, FeedForwardChunk: 40}
	of := func(o lossgraph.Options) (g *lossgraph.Graph, loss float64, grads map[string][]float32) {
		g, grads = s.NewGraph(t, e, o), map[string][]float32{}
		loss = s.ComputeGraph(t, g, batch)
		for name, acc := range s.Grads {
			grads[name] = readValues(t, acc)
		}
		return g, loss, grads
	}
	whole, loss, want := of(o)
	require.Empty(t, whole.Recomputed())
	o.Checkpoint = true
	all := need.Value(lossgraph.New(m, e, lossgraph.Options{Length: archLength, Batch: 2, LogitsChunk: 40, FeedForwardChunk: 40, Checkpoint: true, Adapters: s.Adapters, Grads: s.Trained()}))(t)
	sums := all.Recomputed()
	require.NoError(t, all.Close())
	if len(m.Architecture().Linears()) == 0 { // gradients end at the output
		require.Empty(t, sums)
		return
	}
	require.Greater(t, len(sums), points)
	before := 0.0
	for i := range points + 1 {
		o.Keep = 0
		if n := len(sums) * i / points; n > 0 {
			o.Keep = sums[n-1]
		}
		g, lossKept, got := of(o)
		require.Equal(t, loss, lossKept, "%d bytes kept, %s", o.Keep, set)
		require.Equal(t, want, got, "%d bytes kept, %s", o.Keep, set)
		flops := g.Graph.Summary().FLOPs
		if i > 0 {
			require.Less(t, flops, before)
		}
		before = flops
	}
	require.Equal(t, whole.Graph.Summary().FLOPs, before, "with all results kept, nothing is recomputed")
}
