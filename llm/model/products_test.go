package model_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/refmodel"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/model"
)

// blockConfig has rows that hold whole blocks of every quantised type.
func blockConfig() model.Config {
	c := tinyConfig(false)
	c.Embd, c.FF, c.Layers, c.Heads, c.KVHeads, c.HeadSize = 256, 512, 3, 8, 4, 32
	c.RoPE.Dims = 32
	return c
}

// loraSetup gives a model adapters with random values, accumulators for their
// gradients, and a float64 reference of it all.
type loraSetup struct {
	m       *model.Model
	ref     *refmodel.Model
	deltas  model.Deltas
	trained map[string]*ggml.Tensor
}

func newLoRASetup(t *testing.T, m *model.Model, rank int, scale float32) *loraSetup {
	t.Helper()
	s := &loraSetup{m: m, ref: reference(t, m), deltas: model.Deltas{}, trained: map[string]*ggml.Tensor{}}
	store := newArena(t)
	for _, w := range m.Config.Tensors() {
		if len(w.Shape) == 2 {
			require.NoError(t, s.ref.AddRandomLoRA(rank, float64(scale), 11, w.Name))
		}
	}
	for _, name := range s.ref.LoRANames() {
		values, err := s.ref.Weight(name)
		require.NoError(t, err)
		store.tensor(name, values.Float32(), values.Ne[0], values.Ne[1])
		s.trained[name] = store.tensor(name+".grad", make([]float32, len(values.Data)), values.Ne[0], values.Ne[1])
	}
	for _, w := range m.Config.Tensors() {
		if a, ok := store.ctx.Lookup(w.Name + ".lora_a"); ok {
			s.deltas[w.Name] = []model.Delta{{A: a, B: optest.Found(store.ctx.Lookup(w.Name + ".lora_b")), Scale: scale}}
		}
	}
	return s
}

// compute returns the loss, and leaves the gradients in s.trained.
func (s *loraSetup) compute(t *testing.T, e *model.Engine, b model.Batch, o model.PassOptions) float64 {
	t.Helper()
	for _, acc := range s.trained {
		require.NoError(t, ggml.Write(acc, make([]float32, acc.NumElements())))
	}
	o.Deltas, o.Trained = s.deltas, s.trained
	l, err := s.m.NewLossGraph(o)
	require.NoError(t, err)
	defer l.Close()
	losses, err := l.Compute(context.Background(), e, b)
	require.NoError(t, err)
	return weightedLoss(b, losses)
}

// Every gradient of an adapter points where the exact one on the dequantised
// weights does, also when the products are in BF16. How far that is off grows with
// the weights and the layers: these are 1.4 times as large as in a fresh model.
func TestGradientCosine(t *testing.T) {
	const length = 24
	types := []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q6_K, ggml.Q4_K, ggml.Q4_0, ggml.IQ4NL}
	for _, typ := range types {
		t.Run(typ.String(), func(t *testing.T) {
			s := newLoRASetup(t, noisyModel(t, blockConfig(), typ, 0.02), 8, 0.75)
			batch, sequences := testBatch(s.m.Vocab, length)
			loss, grads, err := s.ref.Gradient(sequences)
			require.NoError(t, err)
			require.Len(t, grads, len(s.trained))
			for _, o := range []model.PassOptions{
				{Products: ggml.F32}, {Products: ggml.F32, Checkpoint: true, FeedForwardChunk: 7},
				{Products: ggml.BF16}, {Products: ggml.BF16, Checkpoint: true, FeedForwardChunk: 7},
				{Products: ggml.F16}, {Products: ggml.F16, Checkpoint: true, FeedForwardChunk: 7},
			} {
				if o.Products == ggml.BF16 && !kernels.HasBF16() || o.Products == ggml.F16 && !kernels.HasF16Accumulation() {
					continue
				}
				o.Length, o.Batch = length, 2
				least, lossError := 0.9999999, 1e-5
				if o.Products != ggml.F32 {
					least, lossError = 0.9999, 2e-3
				}
				got := s.compute(t, testEngine(t), batch, o)
				require.InEpsilon(t, loss, got, lossError)
				worst, where := 1.0, ""
				for name, acc := range s.trained {
					g, err := ggml.Read[float32](acc)
					require.NoError(t, err)
					if c := refmath.Cosine(g, grads[name].Data); c < worst {
						worst, where = c, name
					}
				}
				t.Logf("products in %v, checkpoint %v: loss %.6f of %.6f, least cosine %.7f in %s", o.Products, o.Checkpoint, got, loss, worst, where)
				require.Greater(t, worst, least, "%+v: %s", o, where)
			}
		})
	}
}
