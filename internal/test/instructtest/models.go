package instructtest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Base trains all weights of a small model on text without the task, and writes it once per matrix type. It returns the
// paths.
func Base(t testing.TB, width, steps int, types ...ggml.Type) []string {
	t.Helper()
	v := Vocabulary(t)
	m := need.Value(model.New(arch.Config{
		Arch: "llama", Name: "Says it twice", Vocab: v.NumTokens(), Context: 128, Embd: width, FF: width, Layers: 2, Heads: 4, KVHeads: 4, HeadSize: width / 4,
		RMSEps: 1e-5,
		RoPE:   ggml.RoPE{Dims: width / 4, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, v, 1))(t)
	defer m.Close()
	text := need.Value(data.FromText(v, baseText(8000), data.TextOptions{Length: lineLength}))(t)
	var weights []*ggml.Tensor
	for w := range m.Weights() {
		weights = append(weights, w)
	}
	run(t, m, train.Trainables{ModelWeights: weights}, text, train.Schedule{Peak: 0.08 / math.Sqrt(float64(width)), Warmup: 10, Steps: steps}, 64)
	var paths []string
	for _, typ := range types {
		paths = append(paths, save(t, m, typ))
	}
	return paths
}

// save writes the model with matrices of a type, and with the chat template.
func save(t testing.TB, m *model.Model, typ ggml.Type) string {
	t.Helper()
	return llmtest.SaveChat(t, m, Template, model.SaveOptions{Type: func(name string, old ggml.Type) ggml.Type {
		if m.Weight(name).NumDims() < 2 {
			return old
		}
		return typ
	}})
}

// run trains to the end, and logs the loss of every 20th step.
func run(t testing.TB, m *model.Model, trained train.Trainables, d *data.Dataset, s train.Schedule, batch int) {
	t.Helper()
	adam := train.DefaultAdamW()
	adam.Beta2 = 0.98 // suits short runs
	trainer := need.Value(train.New(m, trained, d, train.Options{Schedule: s, AdamW: adam, Batch: batch, Accumulate: 1, Seed: 1}))(t)
	defer trainer.Close()
	start := time.Now()
	require.NoError(t, trainer.Run(context.Background(), train.RunOptions{}))
	var losses []float64
	for i := 0; i < s.Steps; i += 20 {
		losses = append(losses, trainer.History[i].Loss)
	}
	t.Logf("%d samples in %d rows, %d steps in %.1f s, losses %.3f", d.NumSamples(), d.Len(), s.Steps, time.Since(start).Seconds(), append(losses, trainer.History[s.Steps-1].Loss))
}

// Adapter trains an adapter on the answers to words, from JSON lines, with the model's chat template and packed rows.
func Adapter(t testing.TB, m *model.Model, words []string) *lora.Adapter {
	t.Helper()
	path := filepath.Join(t.TempDir(), "task.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(Records(t, words)), 0o600))
	encoder := need.Value(data.NewEncoder(m.Tokenizer, data.EncoderOptions{TrainOn: chat.Assistant}))(t)
	ctx := context.Background()
	samples, stats, err := data.Prepare(ctx, data.Read(ctx, []string{path}, data.ReadOptions{}), encoder.Encode, data.PrepareOptions{Length: m.Config().Context})
	require.NoError(t, err)
	defer samples.Close()
	// Exactly the answers and their ends are trained.
	require.Equal(t, len(words)*(wordLength+1), stats.Targets)
	row := need.Value(samples.Row(0))(t)
	require.Contains(t, data.FormatSample(m.Tokenizer, row[0], data.Marks{Begin: "[", End: "]"}),
		strings.NewReplacer("USER", words[0], "ANSWER", Answer(words[0])).Replace("<|user|>\nUSER<|end|>\n<|assistant|>\n[ANSWER<|end|>]\n"))
	packed := need.Value(samples.Packed(1))(t)
	a := need.Value(lora.New(m, lora.Options{Rank: 16, Alpha: 32, Init: lora.InitKaiming, Seed: 1, Targets: []string{lora.AllLinear, "output"}}))(t)
	t.Cleanup(func() { a.Close() })
	run(t, m, train.Trainables{Adapters: a.WithScale(1)}, packed, train.Schedule{Peak: 0.64 / float64(m.Config().Embd), Warmup: 5, Steps: 200}, 8)
	return a
}
