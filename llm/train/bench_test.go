package train_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// benchModel is a model of 28 million random parameters in the type.
func benchModel(b *testing.B, typ ggml.Type) *model.Model {
	b.Helper()
	m, err := model.New(model.Config{
		Arch: "llama", Vocab: 8192, Context: 512, Embd: 512, FF: 1408, Layers: 8, Heads: 8, KVHeads: 4, HeadSize: 64, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 64, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 512, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1)
	require.NoError(b, err)
	defer m.Close()
	path := filepath.Join(b.TempDir(), "bench.gguf")
	require.NoError(b, m.Save(path, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 {
			return old
		}
		return typ
	}}))
	quantised, err := model.Load(path, model.LoadOptions{})
	require.NoError(b, err)
	b.Cleanup(func() { quantised.Close() })
	return quantised
}

// A LoRA step of rank 8 over 2 samples of 256 tokens.
func BenchmarkStep(b *testing.B) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0} {
		for _, checkpointing := range []bool{false, true} {
			name := typ.String()
			if checkpointing {
				name += "-checkpointing"
			}
			b.Run(name, func(b *testing.B) { benchmarkStep(b, typ, checkpointing) })
		}
	}
}

func benchmarkStep(b *testing.B, typ ggml.Type, checkpointing bool) {
	m := benchModel(b, typ)
	a, err := lora.New(m, lora.Options{Rank: 8, Alpha: 16, Init: lora.InitKaiming})
	require.NoError(b, err)
	defer a.Close()
	var params []*ggml.Tensor
	for _, p := range a.Pairs() {
		params = append(params, p.A, p.B)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	d := &train.Dataset{Length: 256}
	for range 2 {
		s := train.Sample{}
		for range 257 {
			s.Tokens = append(s.Tokens, int32(rng.IntN(m.Vocab)))
		}
		d.Samples = append(d.Samples, s)
	}
	t, err := train.New(m, params, a.Deltas(1), d, train.Options{
		Schedule: train.Schedule{Peak: 1e-4, Steps: 1 << 30}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1, Checkpointing: checkpointing,
	})
	require.NoError(b, err)
	defer t.Close()
	_, err = t.Step(context.Background())
	require.NoError(b, err)
	for b.Loop() {
		_, err := t.Step(context.Background())
		require.NoError(b, err)
	}
	b.ReportMetric(float64(t.StepTokens()*b.N)/b.Elapsed().Seconds(), "tokens/s")
	b.ReportMetric(float64(t.Memory())/(1<<20), "MiB")
	b.ReportMetric(0, "ns/op")
}
