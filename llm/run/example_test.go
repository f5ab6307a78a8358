package run_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/train"
)

// small returns a trainer for some steps, its adapter, and a function that closes both.
func small(steps int) (t *train.Trainer, adapter *lora.Adapter, done func()) {
	m := must(model.Load("model.gguf", model.LoadOptions{}))
	chats := must(data.Load(context.Background(), m.Tokenizer, []string{"chats.jsonl"}, data.LoadOptions{Length: 64}))
	adapter = must(lora.New(m, lora.Options{Rank: 2, Alpha: 4}))
	t = must(train.New(m, train.Trainables{Adapters: adapter.WithScale(1)}, chats.Data, train.Options{
		Schedule: train.Schedule{Peak: 0.01, Steps: steps}, AdamW: train.DefaultAdamW(), Batch: 2, Accumulate: 1,
	}))
	return t, adapter, func() { t.Close(); adapter.Close(); chats.Close(); m.Close() }
}

// Stop a run, and start the same program again: it resumes, and does nothing once the run is complete.
func ExampleOutcome() {
	start := func(ctx context.Context) {
		t, adapter, done := small(6)
		defer done()
		folder := must(run.Create("runs/stopped"))
		defer folder.Close()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		o := folder.Options(func(path string) error { return adapter.Save(path, lora.SaveOptions{}) })
		o.OnStep = func(m train.StepMetrics, _ float64) {
			if m.Step == 4 {
				stop() // as signal.NotifyContext does on an interrupt
			}
		}
		out, err := run.Train(ctx, t, o)
		if err != nil && !errors.Is(err, train.ErrStopped) {
			log.Fatal(err)
		}
		fmt.Println(out)
	}
	for range 3 {
		start(context.Background())
	}
	// Output:
	// stopped after step 4 of 6
	// ended after step 6 of 6: all 6 steps are done
	// already complete (6 of 6 steps): nothing is left to do
}

// List the runs below a folder, their progress and their adapters.
func ExampleList() {
	t, adapter, done := small(3)
	defer done()
	folder := must(run.CreateNew("listed", "first"))
	defer folder.Close()
	must(run.Train(context.Background(), t, folder.Options(func(path string) error { return adapter.Save(path, lora.SaveOptions{}) })))
	for _, r := range must(run.List("listed")) {
		p := must(r.Progress())
		fmt.Printf("%s: %d of %d steps\n", filepath.ToSlash(r.Path), p.Step, r.Manifest.Steps)
		fmt.Println(filepath.ToSlash(must(r.AdapterPath())))
		for line, err := range r.Metrics() {
			check(err)
			fmt.Println(line.Step, line.Tokens > 0, *line.Loss > 0)
		}
	}
	// Output:
	// listed/first: 3 of 3 steps
	// listed/first/adapter.gguf
	// 1 true true
	// 2 true true
	// 3 true true
}

// A run whose files are not in a folder of its own, and that keeps all saves.
func ExampleOptions() {
	t, adapter, done := small(4)
	defer done()
	folder := must(os.MkdirTemp("", "saves"))
	defer os.RemoveAll(folder)
	out := must(run.Train(context.Background(), t, run.Options{
		Result:    run.SavedFile{File: run.File{Path: filepath.Join(folder, "adapter-STEP.gguf")}, Iteration: "STEP", Latest: "last", Keep: -1},
		Write:     func(path string) error { return adapter.Save(path, lora.SaveOptions{}) },
		SaveEvery: 2,
	}))
	fmt.Println(out)
	for _, file := range must(os.ReadDir(folder)) {
		fmt.Println(file.Name())
	}
	// Output:
	// ended after step 4 of 4: all 4 steps are done
	// adapter-2.gguf
	// adapter-4.gguf
	// adapter-last.gguf
}

// The manifest has the hashes of a run's inputs: a continued run requires the same.
func ExampleFolder_CheckInputs() {
	folder := must(run.Create("runs/checked"))
	defer folder.Close()
	read := []run.Input{{Name: "data", Path: "poem.txt"}}
	for _, text := range []string{"roses are red", "violets are blue"} {
		check(os.WriteFile("poem.txt", []byte(text), 0o600))
		before, _, err := run.ReadManifest(folder.Path)
		check(err)
		inputs, err := folder.CheckInputs(before, nil, read)
		var changed *run.ChangedError
		if errors.As(err, &changed) {
			fmt.Println("another", changed.Name, "of", changed.Bytes, "bytes")
			return
		}
		check(folder.Describe(run.Manifest{Files: inputs}))
	}
	// Output: another data of 16 bytes
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
