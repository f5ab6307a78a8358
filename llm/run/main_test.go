package run

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// The tests run in a folder with a small model, model.gguf, and chats.jsonl: Examples are programs that have them.
func TestMain(m *testing.M) { testutil.Main(testutil.InFolder(m, makeWorkplace)) }

func makeWorkplace(folder string) error {
	if err := os.Chdir(folder); err != nil {
		return err
	}
	chats, err := os.Create("chats.jsonl")
	if err != nil {
		return err
	}
	defer chats.Close()
	lines := json.NewEncoder(chats)
	for n := range 40 {
		say := func(role, content string) map[string]string {
			return map[string]string{"role": role, "content": content}
		}
		talk := []any{say("user", fmt.Sprintf("What is %d + 1?", n)), say("assistant", fmt.Sprint(n+1))}
		if err := lines.Encode(map[string]any{"messages": talk}); err != nil {
			return err
		}
	}
	const text = "What is 1 + 1? user assistant"
	c, err := tokenizer.TrainBPE(slices.Values([]string{text}), tokenizer.TrainOptions{VocabSize: 260, Special: []string{"<|end|>"}})
	if err != nil {
		return err
	}
	c.ChatTemplate = "{% for m in messages %}{{ m.role }}: {{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
	t, err := tokenizer.New(c)
	if err != nil {
		return err
	}
	m, err := model.New(tinyConfig(t.NumTokens(), 64, 32), t, 1)
	if err != nil {
		return err
	}
	defer m.Close()
	return m.Save("model.gguf", model.SaveOptions{})
}

func tinyConfig(vocabulary, context, embd int) arch.Config {
	return arch.Config{
		Arch: "llama", Name: "Tiny", Vocab: vocabulary, Context: context, Embd: embd, FF: embd, Layers: 1, Heads: 1, KVHeads: 1, HeadSize: embd,
		RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: embd, FreqBase: 10000, FreqScale: 1, TrainedCtx: context, AttnFactor: 1},
	}
}

func oneSample() *data.Dataset {
	return data.New(4, []data.Sample{{Tokens: []int32{1, 2, 3, 4}}})
}

// newTrainer makes one of a run of some steps.
func newTrainer(t *testing.T, steps int) *train.Trainer {
	t.Helper()
	m := need.Value(model.New(tinyConfig(16, 8, 8), nil, 1))(t)
	t.Cleanup(func() { m.Close() })
	trainer := need.Value(train.New(m, train.Trainables{ModelWeights: []*ggml.Tensor{m.Weight("token_embd.weight")}}, oneSample(), train.Options{
		Schedule: train.Schedule{Peak: 0.01, Steps: steps}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1, Seed: 1, Threads: 1,
	}))(t)
	t.Cleanup(func() { trainer.Close() })
	return trainer
}

// stopAfter is a context that ends when a step is done, and the function to call after steps.
func stopAfter(t *testing.T, step int) (context.Context, func(train.StepMetrics, float64)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	return ctx, func(m train.StepMetrics, _ float64) {
		if m.Step == step {
			stop()
		}
	}
}
