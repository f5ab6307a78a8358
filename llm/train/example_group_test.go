package train_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/parallel"
	"github.com/goggml/ggml/llm/train"
)

// Two trainers train together, each with its own adapter and engine and half of the rows of each step.
// Both end with the same adapter.
func ExampleTrainer_group() {
	m, adapter, text, err := smallAdapter()
	check(err)
	defer m.Close()
	defer adapter.Close()
	another := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16}))
	defer another.Close()

	var trainers []*train.Trainer
	for rank, group := range parallel.Local(2) {
		t := must(train.New(m, train.Trainables{Adapters: []*lora.Adapter{adapter, another}[rank].WithScale(1)}, text, train.Options{
			Schedule: train.Schedule{Peak: 0.01, Steps: 20}, AdamW: train.DefaultAdamW(), Batch: 8, Accumulate: 1, Seed: 1, Threads: 1,
			Group: group,
		}))
		defer t.Close()
		trainers = append(trainers, t)
	}
	var all sync.WaitGroup
	for _, t := range trainers {
		all.Add(1)
		go func() {
			defer all.Done()
			check(t.Run(context.Background(), train.RunOptions{}))
		}()
	}
	all.Wait()
	first, second := trainers[0].History, trainers[1].History
	fmt.Println("the same:", first[19] == second[19])
	fmt.Println("learned:", first[19].Loss < first[0].Loss)
	// Output:
	// the same: true
	// learned: true
}

// Evaluate held-out text without training.
func ExampleEvaluator() {
	m, adapter, text, err := smallAdapter()
	check(err)
	defer m.Close()
	defer adapter.Close()
	e := must(train.NewEvaluator(m, train.EvaluatorOptions{}))
	defer e.Close()
	base := must(e.Evaluate(context.Background(), nil, text))
	adapted := must(e.Evaluate(context.Background(), adapter.WithScale(1), text))
	fmt.Println("a new adapter changes nothing:", adapted.Loss == base.Loss)
	// Output:
	// a new adapter changes nothing: true
}
