package model_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// small has random weights and two layers.
func small() *model.Model {
	m, err := model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 256, FF: 256, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 128, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// inFolder gives f a folder that is removed afterwards.
func inFolder(f func(folder string)) {
	folder, err := os.MkdirTemp("", "model")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	f(folder)
}

// Look at what a model is made of.
func ExampleModel() {
	m := small() // or model.Load
	defer m.Close()
	c := m.Config()
	fmt.Println(c.Arch, "of", c.Layers, "layers, trained on", c.Context, "tokens")
	weights, bytes := 0, int64(0)
	for w := range m.Weights() {
		weights++
		bytes += w.NumBytes()
	}
	fmt.Println(weights, "weights,", bytes/1024, "KiB, on the", m.Layout())
	fmt.Println(m.Weight("blk.1.attn_k.weight").Shape())
	// Output:
	// llama of 2 layers, trained on 128 tokens
	// 21 weights, 3205 KiB, on the CPU
	// [256 128]
}

// Quantise the matrices of a model, and load the result.
func ExampleSaveOptions() {
	inFolder(func(folder string) {
		m := small() // or model.Load
		defer m.Close()
		path := filepath.Join(folder, "q8_0.gguf")
		err := m.Save(path, model.SaveOptions{Type: func(name string, t ggml.Type) ggml.Type {
			if m.Weight(name).NumDims() == 1 {
				return t // norms
			}
			return ggml.Q8_0
		}})
		if err != nil {
			log.Fatal(err)
		}
		small, err := model.Load(path, model.LoadOptions{})
		if err != nil {
			log.Fatal(err)
		}
		defer small.Close()
		fmt.Println(small.Weight("token_embd.weight").Type(), small.Weight("output_norm.weight").Type())
	})
	// Output: q8_0 f32
}

// Load a model with another base of RoPE's frequencies than its file has.
func ExampleLoadOptions() {
	inFolder(func(folder string) {
		path := filepath.Join(folder, "model.gguf")
		m := small()
		err := m.Save(path, model.SaveOptions{})
		m.Close()
		if err != nil {
			log.Fatal(err)
		}
		m, err = model.Load(path, model.LoadOptions{
			Repack:   true, // for tokens one by one
			Override: func(c *arch.Config) { c.RoPE.FreqBase = 500000 },
		})
		if err != nil {
			log.Fatal(err)
		}
		defer m.Close()
		fmt.Println(m.Config().RoPE.FreqBase)
	})
	// Output: 500000
}

// The adapters of a graph are matrices by the name of the weight that they are added to.
func ExampleAdapters() {
	m := small()
	defer m.Close()
	adapter, err := lora.New(m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_q"}})
	if err != nil {
		log.Fatal(err)
	}
	defer adapter.Close()
	var adapters model.Adapters = adapter.WithScale(0.5)
	pair := adapters["blk.1.attn_q.weight"][0]
	fmt.Println(len(adapters), "matrices; A", pair.A.Shape()[:2], "and B", pair.B.Shape()[:2], "count", pair.Scale, "times")
	// Output: 2 matrices; A [256 4] and B [4 256] count 1 times
}

// The loss of a batch of two rows. Trainers make such graphs with gradients.
func ExampleLossGraph() {
	m := small() // of random weights, to which all of its 64 tokens are about as likely
	defer m.Close()
	engine, err := device.NewCPU(0)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	graph, err := m.NewLossGraph(engine, model.TrainGraphOptions{Length: 4, Batch: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer graph.Close()
	losses, err := graph.Compute(context.Background(), model.Batch{
		Tokens:      []int32{1, 2, 3, 4, 9, 8, 7, 6},
		Targets:     []int32{2, 3, 4, 5, 8, 7, 6, 5},
		LossWeights: []float32{1, 1, 1, 1, 0, 0, 1, 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(losses), "losses:", math.Abs(float64(losses[0])-math.Log(64)) < 0.5)
	// Output: 8 losses: true
}

// Devices multiply faster by matrices in the compute type, and keep such copies beside the file's
// matrices.
func ExampleCopies() {
	m := small()
	defer m.Close()
	engine, err := device.New(device.Options{OpSet: device.Stock})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	copies, err := m.NewCopies(engine, ggml.BF16, []model.Kept{model.KeptMatrix})
	if err != nil {
		log.Fatal(err)
	}
	defer copies.Close()
	graph, err := m.NewLossGraph(engine, model.TrainGraphOptions{Length: 4, Batch: 2, ComputeType: ggml.BF16, Copies: copies})
	if err != nil {
		log.Fatal(err)
	}
	defer graph.Close()
	if err := errors.Join(copies.Allocate(), copies.Fill(context.Background())); err != nil {
		log.Fatal(err)
	}
	fmt.Println(copies)
	// Output: weights in bf16 on CPU: 1.5 MiB
}

// A batch can be too large to be computed at a time; then a step takes several.
func ExampleBatchSizeError() {
	m := small()
	defer m.Close()
	engine, err := device.NewCPU(0)
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	_, err = m.NewLossGraph(engine, model.TrainGraphOptions{Length: 1 << 20, Batch: 1 << 10})
	var tooLarge *model.BatchSizeError
	fmt.Println(errors.As(err, &tooLarge), tooLarge.MaxTokens)
	// Output: true 16777216
}
