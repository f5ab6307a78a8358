package run_test

import (
	"context"
	"fmt"
	"log"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// Train an adapter on conversations. A tenth of them is held out: their loss ends the run early and chooses the best
// adapter. Started again, the program continues the run in the folder.
func Example() {
	ctx := context.Background()
	m := must(model.Load("model.gguf", model.LoadOptions{}))
	defer m.Close()
	chats := must(data.Load(ctx, m.Tokenizer, []string{"chats.jsonl"}, data.LoadOptions{Length: 64, HoldOut: 0.1}))
	defer chats.Close()
	adapter := must(lora.New(m, lora.Options{Rank: 8, Alpha: 16}))
	defer adapter.Close()
	t := must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, chats.Data, train.Options{
		Schedule: train.Schedule{Peak: 0.1}, // of real models 2e-4
		AdamW:    train.DefaultAdamW(), Epochs: 50, Batch: 4, Accumulate: 1, Convergence: train.Convergence{Patience: 3},
	}))
	defer t.Close()
	folder := must(run.Create("runs/sums"))
	defer folder.Close()
	o := folder.Options(func(path string) error { return adapter.Save(path, lora.SaveOptions{}) })
	o.Valid, o.ValidEvery, o.SaveEvery = chats.Held, 10, 10
	fmt.Println(must(run.Train(ctx, t, o)).Ended)
	// Output: the validation loss has not improved for 3 evaluations
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
