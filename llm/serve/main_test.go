package serve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// The tests run with a tiny model in a temporary folder that knows one answer.
func TestMain(m *testing.M) { testutil.Main(withModel{m}) }

type withModel struct{ testutil.Tests }

const (
	template = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
	question = "Why is the sky blue?"
	answer   = "Because air scatters blue light most."
	known    = `{"messages": [{"role": "user", "content": "` + question + `"}, {"role": "assistant", "content": "` + answer + `"}]}` + "\n"
)

var modelPath string

func (w withModel) Run() int {
	folder, err := os.MkdirTemp("", "serve")
	if err == nil {
		defer os.RemoveAll(folder)
		modelPath = filepath.Join(folder, "tiny.gguf")
		err = writeModel(filepath.Join(folder, "known.jsonl"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return w.Tests.Run()
}

func writeModel(data string) error {
	if err := os.WriteFile(data, []byte(known), 0o600); err != nil {
		return err
	}
	c, err := tokenizer.TrainBPE(slices.Values([]string{strings.Repeat(known, 4)}), tokenizer.TrainOptions{VocabSize: 320, Special: []string{"<|end|>", "<|user|>", "<|assistant|>"}})
	if err != nil {
		return err
	}
	c.ChatTemplate = template
	v, err := tokenizer.New(c)
	if err != nil {
		return err
	}
	m, err := model.New(arch.Config{
		Arch: "llama", Vocab: v.NumTokens(), Context: 128, Embd: 64, FF: 64, Layers: 1, Heads: 4, KVHeads: 4, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, v, 1)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := learn(m, data); err != nil {
		return err
	}
	return m.Save(modelPath, model.SaveOptions{})
}

func learn(m *model.Model, path string) error {
	ctx := context.Background()
	samples, err := data.Load(ctx, m.Tokenizer, []string{path}, data.LoadOptions{Length: m.Config().Context})
	if err != nil {
		return err
	}
	defer samples.Close()
	var weights []*ggml.Tensor
	for w := range m.Weights() {
		weights = append(weights, w)
	}
	t, err := train.New(m, train.Trainables{ModelWeights: weights}, samples.Data, train.Options{Schedule: train.Schedule{Peak: 0.02, Steps: 40}, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1})
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Run(ctx, train.RunOptions{})
}
