package instructtest

import (
	"context"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// chatTemplate is the template of [ChatModel].
const chatTemplate = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`

// ChatModel returns a tiny model with random weights, a chat template, and a vocabulary of the text.
func ChatModel(text string) (*model.Model, error) {
	c, err := tokenizer.TrainBPE(slices.Values([]string{text}), tokenizer.TrainOptions{VocabSize: 320, Special: []string{"<|end|>", "<|user|>", "<|assistant|>"}})
	if err != nil {
		return nil, err
	}
	c.ChatTemplate = chatTemplate
	v, err := tokenizer.New(c)
	if err != nil {
		return nil, err
	}
	return model.New(arch.Config{
		Arch: "llama", Vocab: v.NumTokens(), Context: 128, Embd: 64, FF: 64, Layers: 1, Heads: 4, KVHeads: 4, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, v, 1)
}

// LearnByHeart trains all weights of a [ChatModel] on the answers in a file.
func LearnByHeart(m *model.Model, path string) error {
	return Learn(m, train.Trainables{ModelWeights: slices.Collect(m.Weights())}, path, train.Schedule{Peak: 0.02, Steps: 40})
}

// Learn trains on the answers in a file.
func Learn(m *model.Model, trained train.Trainables, path string, s train.Schedule) error {
	ctx := context.Background()
	samples, err := data.Load(ctx, m.Tokenizer, []string{path}, data.LoadOptions{Length: m.Config().Context})
	if err != nil {
		return err
	}
	defer samples.Close()
	t, err := train.New(m, trained, samples.Data, train.Options{Schedule: s, AdamW: train.DefaultAdamW(), Batch: 1, Accumulate: 1})
	if err != nil {
		return err
	}
	defer t.Close()
	return t.Run(ctx, train.RunOptions{})
}
