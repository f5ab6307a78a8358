package lora_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// tinyConfig is a small model with grouped heads, whose rows hold whole blocks
// of the types with up to 32 elements in one.
func tinyConfig(tied bool) arch.Config {
	return arch.Config{
		Arch: "llama", Name: "Tiny", Vocab: 96, Context: 64, Embd: 64, FF: 96, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16,
		RMSEps: 1e-5, Tied: tied,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
}

// goldenConfig is the shape of the model that the adapter in testdata is for.
func goldenConfig() arch.Config {
	c := tinyConfig(false)
	c.Vocab, c.Context, c.Embd, c.FF, c.Layers, c.HeadSize = 571, 512, 128, 352, 3, 32
	c.RoPE.Dims, c.RoPE.TrainedCtx = 32, 512
	return c
}

func newModel(t require.TestingT, c arch.Config, cleanup func(func())) *model.Model {
	m := need.Value(model.New(c, nil, 7))(t)
	cleanup(func() { m.Close() })
	return m
}

func tinyModel(t *testing.T, tied bool) *model.Model {
	t.Helper()
	return newModel(t, tinyConfig(tied), t.Cleanup)
}

// cleaner is a test, or a check of random ones.
type cleaner interface {
	require.TestingT
	Cleanup(f func())
}

// load is an adapter of a file, which is closed at the end of the test.
func load(t cleaner, path string, m *model.Model) *lora.Adapter {
	a := need.Value(lora.Load(path, m))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

// fileModel writes the tiny model in a type and loads the file.
func fileModel(t *testing.T, tied bool, typ ggml.Type) *model.Model {
	t.Helper()
	made := tinyModel(t, tied)
	path := filepath.Join(t.TempDir(), "base.gguf")
	rng := rand.New(rand.NewPCG(1, 2))
	require.NoError(t, made.Save(path, model.SaveOptions{
		Type: func(name string, old ggml.Type) ggml.Type {
			if made.Weight(name).NumDims() < 2 {
				return old
			}
			return typ
		},
		// Weights are larger than in a fresh model, so that every path counts.
		Change: func(string) func([]float32) error {
			return func(values []float32) error { return addNoise(values, rng) }
		},
	}))
	m := need.Value(model.Load(path, model.LoadOptions{}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func addNoise(values []float32, rng *rand.Rand) error {
	for i := range values {
		values[i] += float32(0.1 * rng.NormFloat64())
	}
	return nil
}

func newAdapter(t *testing.T, m *model.Model, o lora.Options) *lora.Adapter {
	t.Helper()
	a := need.Value(lora.New(m, o))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

// trained makes an adapter whose B is not zero.
func trained(t *testing.T, m *model.Model, o lora.Options) *lora.Adapter {
	t.Helper()
	a := newAdapter(t, m, o)
	rng := rand.New(rand.NewPCG(o.Seed, 5))
	for _, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		require.NoError(t, addNoise(values, rng))
		require.NoError(t, ggml.Write(p.B, values))
	}
	return a
}

func floats(t require.TestingT, x *ggml.Tensor) []float32 {
	return need.Value(x.Float32s())(t)
}

// losses computes the loss of each of some tokens.
func losses(t *testing.T, m *model.Model, adapters model.Adapters) []float32 {
	t.Helper()
	const length = 24
	engine := need.Value(device.NewCPU(2))(t)
	defer engine.Close()
	graph := need.Value(lossgraph.New(m, engine, lossgraph.Options{Length: length, Batch: 2, Adapters: adapters}))(t)
	defer graph.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	var batch lossgraph.Batch
	for range 2 * length {
		batch.Tokens = append(batch.Tokens, int32(rng.IntN(m.Config().Vocab)))
		batch.Targets = append(batch.Targets, int32(rng.IntN(m.Config().Vocab)))
	}
	return need.Value(graph.Compute(context.Background(), batch))(t)
}
