package train_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
	"github.com/goggml/ggml/llm/train"
)

// Train an adapter on a text, and compare the loss before and after.
func ExampleTrainer() {
	text := strings.Repeat("She sells sea shells by the sea shore. ", 20)
	m := must(tinyModelFor(text)) // or model.Load
	defer m.Close()
	data := must(data.FromText(m.Tokenizer, text, data.TextOptions{Length: 16}))
	adapter := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16}))
	defer adapter.Close()
	t := must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, data, train.Options{
		Schedule: train.Schedule{Peak: 0.03, Warmup: 5, Steps: 60},
		AdamW:    train.DefaultAdamW(), Batch: 8, Accumulate: 1, Seed: 1,
	}))
	defer t.Close()
	ctx := context.Background()
	before := must(t.Evaluate(ctx, data))
	err := t.Run(ctx, train.RunOptions{
		OnStep: func(p train.StepMetrics) {
			if p.Step%20 == 0 {
				fmt.Println("step", p.Step)
			}
		},
	})
	check(err)
	after := must(t.Evaluate(ctx, data))
	fmt.Println("the loss fell:", after.Loss < before.Loss-0.2)
	// Output:
	// step 20
	// step 40
	// step 60
	// the loss fell: true
}

// tinyModelFor returns a model with a vocabulary for the text.
func tinyModelFor(text string) (*model.Model, error) {
	c, err := tokenizer.TrainBPE(slices.Values([]string{text}), tokenizer.TrainOptions{VocabSize: 280})
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.New(c)
	if err != nil {
		return nil, err
	}
	return model.New(arch.Config{
		Arch: "llama", Vocab: t.NumTokens(), Context: 32, Embd: 32, FF: 64, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 8, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, t, 1)
}

// A rate that falls within four steps after a warm-up of two and then restarts, in cycles that double
// in length.
func ExampleSchedule() {
	s := train.Schedule{Peak: 1, Floor: 0.1, Warmup: 2, Steps: 14, Period: 4, PeriodGrowth: 2, Restart: true}
	for step := 1; step <= s.Steps; step++ {
		fmt.Printf("%.2f ", s.At(step))
	}
	// Output:
	// 0.50 1.00 1.00 0.87 0.55 0.23 1.00 0.97 0.87 0.72 0.55 0.38 0.23 0.13
}

// Stop when the loss of held-out text no longer falls, and save the best adapter.
func ExampleConvergence() {
	m, adapter, text, err := smallAdapter()
	check(err)
	defer m.Close()
	defer adapter.Close()
	held := must(data.FromText(m.Tokenizer, "She sells sea shells, and he sees the shore. ", data.TextOptions{Length: 8}))
	t := must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, text, train.Options{
		Schedule: train.Schedule{Peak: 0.1, Steps: 1000}, AdamW: train.DefaultAdamW(), Batch: 8, Accumulate: 1, Seed: 1,
		Convergence: train.Convergence{Patience: 3},
	}))
	defer t.Close()
	err = t.Run(context.Background(), train.RunOptions{
		EvalData: held, EvalEvery: 5,
		OnBest: func(train.Evaluation) error { return nil }, // adapter.Save
	})
	check(err)
	best, _ := t.Best()
	last := t.Evaluations[len(t.Evaluations)-1]
	fmt.Println(t.Ended())
	fmt.Println("three evaluations after the best:", last.Step == best.Step+15, last.Perplexity() >= best.Perplexity())
	// Output:
	// the validation loss has not improved for 3 evaluations
	// three evaluations after the best: true true
}

// Check whether a run fits into the memory of a layout, here the CPU, with and without gradient
// checkpointing.
func ExampleEstimateMemory() {
	m, adapter, text, err := smallAdapter()
	check(err)
	defer m.Close()
	defer adapter.Close()
	var steps []int64
	for _, c := range []train.Checkpointing{train.CheckpointingOff, train.CheckpointingOn} {
		e := must(train.EstimateMemory(layout.Layout{}, m, train.Trainables{Adapters: adapter.WithScale(1)}, text, train.Options{
			Schedule: train.Schedule{Peak: 1e-3, Steps: 10}, AdamW: train.DefaultAdamW(), Batch: 8, Accumulate: 1, Checkpointing: c,
		}))
		steps = append(steps, e.Step.Total())
	}
	fmt.Println("checkpointing takes less:", steps[1] < steps[0])
	fmt.Println("a step fits:", steps[0] < layout.AvailableHostMemory())
	// Output:
	// checkpointing takes less: true
	// a step fits: true
}

// smallAdapter returns an adapter of a small model, and text to train it on.
func smallAdapter() (*model.Model, *lora.Adapter, *data.Dataset, error) {
	text := strings.Repeat("She sells sea shells by the sea shore. ", 20)
	m, err := tinyModelFor(text)
	if err != nil {
		return nil, nil, nil, err
	}
	d, err := data.FromText(m.Tokenizer, text, data.TextOptions{Length: 16})
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := lora.New(m, lora.Options{Rank: 8, Alpha: 16})
	return m, a, d, err
}

// Compare a model with and without its adapter on held-out text.
func ExampleEvaluation() {
	m, adapter, text, err := smallAdapter()
	check(err)
	defer m.Close()
	defer adapter.Close()
	rest, held, err := text.Split(0.2)
	check(err)
	t := must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, rest, train.Options{
		Schedule: train.Schedule{Peak: 0.05, Steps: 40}, AdamW: train.DefaultAdamW(), Batch: 8, Accumulate: 1, Seed: 1,
	}))
	defer t.Close()
	ctx := context.Background()
	check(t.Run(ctx, train.RunOptions{}))
	base := must(t.EvaluateWith(ctx, nil, held))
	adapted := must(t.Evaluate(ctx, held))
	fmt.Println("of", adapted.Tokens, "tokens each:", base.Tokens == adapted.Tokens)
	fmt.Println("better:", adapted.Loss < base.Loss, adapted.Perplexity() < base.Perplexity(), adapted.Accuracy > base.Accuracy)
	// Output:
	// of 32 tokens each: true
	// better: true true true
}

// Resume a stopped run from its checkpoint, with another learning rate if desired. A different run is
// rejected.
func ExampleTrainer_LoadCheckpoint() {
	m, adapter, text, err := smallAdapter()
	check(err)
	defer m.Close()
	defer adapter.Close()
	folder := must(os.MkdirTemp("", "train"))
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "checkpoint.gguf")
	options := train.Options{
		Schedule: train.Schedule{Peak: 0.01, Steps: 4}, AdamW: train.DefaultAdamW(), Batch: 8, Accumulate: 1, Seed: 1,
	}
	begin := func() *train.Trainer {
		return must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, text, options))
	}
	first := begin()
	defer first.Close()
	ctx, stop := context.WithCancel(context.Background())
	err = first.Run(ctx, train.RunOptions{
		OnStep: func(m train.StepMetrics) {
			if m.Step == 3 {
				stop()
			}
		},
		OnSave: func() error { return first.SaveCheckpoint(path) },
	})
	fmt.Println(err)

	options.Schedule.Peak = 0.005
	second := begin()
	defer second.Close()
	check(second.LoadCheckpoint(path))
	fmt.Println("at step", second.Steps(), "with other settings:", second.Changes())
	fmt.Println(second.Run(context.Background(), train.RunOptions{}), second.Done())

	options.Batch = 4
	third := begin()
	defer third.Close()
	var other *train.MismatchError
	fmt.Println(errors.As(third.LoadCheckpoint(path), &other), other.Differences)
	// Output:
	// stopped before the end
	// at step 3 with other settings: [learning rate was 0.01, is 0.005]
	// <nil> true
	// true [batch was 8, is 4]
}

func ExampleSettings() {
	for _, s := range train.Settings() {
		if !s.Free {
			fmt.Println(s.Words)
		}
	}
	// Output:
	// frozen weights
	// data
	// sample length
	// batch
	// gradient accumulation
	// seed
	// rows grouped by length
	// adapter scale of *
	// loss
	// figure of the best evaluation
}

// A program names settings by its own flags.
func ExampleDifference() {
	flags := map[train.SettingID]string{train.SettingBatch: "-b", train.SettingLearningRate: "-rate"}
	d := train.Difference{ID: train.SettingLearningRate, Setting: "learning rate", Was: "0.01", Is: "0.02"}
	fmt.Println(d)
	if flag, ok := flags[d.ID]; ok {
		d.Setting = flag
	}
	fmt.Println(d)
	// Output:
	// learning rate was 0.01, is 0.02
	// -rate was 0.01, is 0.02
}

// check ends an example at an error; a program returns it.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](x T, err error) T {
	check(err)
	return x
}
