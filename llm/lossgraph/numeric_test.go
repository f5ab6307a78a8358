package lossgraph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/stockmodel"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lossgraph"
)

// minimalConfig is small enough for central differences. Its rows hold one
// block of Q8_0 or Q4_0, and more.
func minimalConfig() arch.Config {
	return arch.Config{
		Arch: "llama", Vocab: 40, Context: 32, Embd: 32, FF: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 8, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
}

// The gradients of A and B of every matrix of every layer, of the token embedding and of the output agree with central
// differences of the loss in float64 on the same (dequantised) weights.
func TestLoRAGradientsAgainstCentralDifferences(t *testing.T) {
	const length = 5
	const bound = 1e-5 // far below the 1e-2 that training would bear
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0} {
		t.Run(typ.String(), func(t *testing.T) {
			t.Parallel()
			s := newAdaptedModel(t, typ)
			batch, grads := llmtest.NewBatch(s.Model.Config().Vocab, length), map[*ggml.Tensor][]float64{}
			s.Compute(t, llmtest.NewEngine(t), batch, lossgraph.Options{Length: length, Batch: 2})
			for x, acc := range s.Trained() {
				grads[x] = refmath.From(readValues(t, acc)).Data
			}
			loss := llmtest.ExactLoss(t, s.Model, batch, lossgraph.Options{Length: length, Adapters: s.Adapters})
			llmtest.RequireSlopes(t, loss, batch, grads, 0, bound)
		})
	}
}

// newAdaptedModel has a pair on every matrix.
func newAdaptedModel(t *testing.T, typ ggml.Type) *llmtest.LoRASetup {
	t.Helper()
	s := llmtest.NewLoRASetup(t, llmtest.TinyModel(t, minimalConfig(), typ), 2, 1.25)
	require.Len(t, s.Adapters, 2*7+2, "every target of every layer")
	return s
}

// ggml's own backward pass through a graph of built-in ops gives the same
// gradients: another forward graph, and other rules.
func TestLoRAGradientsAgainstAutograd(t *testing.T) {
	const length = 10
	s := newAdaptedModel(t, ggml.F32)
	batch := llmtest.NewBatch(s.Model.Config().Vocab, length)
	batch = lossgraph.Batch{Tokens: batch.Tokens[:length], Targets: batch.Targets[:length]} // stock loss: no weights
	g := need.Value(stockmodel.New(s.Model, s.Adapters, length))(t)
	t.Cleanup(func() { g.Close() })
	engine := llmtest.NewEngine(t)
	require.NoError(t, engine.Allocate(g.Graph))
	require.NoError(t, g.Compute(context.Background(), engine, batch.Tokens, batch.Targets))
	want := need.Value(ggml.Read[float32](g.Loss))(t)

	l := s.NewGraph(t, engine, lossgraph.Options{Length: length, Batch: 1})
	losses := need.Value(l.Compute(context.Background(), batch))(t)
	require.InEpsilon(t, want[0], mean(losses), 1e-5)
	for x, acc := range s.Trained() {
		grad, ok := g.Grad(x)
		require.True(t, ok, x.Name())
		theirs := need.Value(grad.Float32s())(t)
		require.Less(t, refmath.RelativeError(readValues(t, acc), theirs), 1e-5, x.Name())
	}
}

func mean(values []float32) (sum float64) {
	for _, x := range values {
		sum += float64(x) / float64(len(values))
	}
	return sum
}
