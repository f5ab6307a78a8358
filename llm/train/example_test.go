package train_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// Train an adapter on a text, and see what it changed.
func ExampleTrainer() {
	text := strings.Repeat("She sells sea shells by the sea shore. ", 20)
	m, err := tinyModelFor(text) // or model.Load
	if err != nil {
		log.Fatal(err)
	}
	defer m.Close()
	data, err := data.FromText(m.Tokenizer, text, data.TextOptions{Length: 16})
	if err != nil {
		log.Fatal(err)
	}
	adapter, err := lora.New(m, lora.Options{Rank: 8, Alpha: 16})
	if err != nil {
		log.Fatal(err)
	}
	defer adapter.Close()
	t, err := train.New(m, train.Trainables{Adapters: adapter.Weights(1)}, data, train.Options{
		Schedule: train.Schedule{Peak: 0.03, Warmup: 5, Steps: 60},
		AdamW:    train.DefaultAdamW(), Batch: 8, Accumulate: 1, Seed: 1,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer t.Close()
	ctx := context.Background()
	before, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	err = t.Run(ctx, train.RunOptions{
		OnStep: func(p train.StepMetrics) {
			if p.Step%20 == 0 {
				fmt.Println("step", p.Step)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	after, err := t.Evaluate(ctx, data)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the loss fell:", after.Loss < before.Loss-0.2)
	// Output:
	// step 20
	// step 40
	// step 60
	// the loss fell: true
}

// tinyModelFor makes a model with a vocabulary that suits the text.
func tinyModelFor(text string) (*model.Model, error) {
	c, err := tokenizer.TrainBPE(slices.Values([]string{text}), tokenizer.TrainOptions{VocabSize: 280})
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.New(c)
	if err != nil {
		return nil, err
	}
	return model.New(model.Config{
		Arch: "llama", Vocab: t.NumTokens(), Context: 32, Embd: 32, FF: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 8, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, t, 1)
}
