package model_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// small has random weights and two layers.
func small() *model.Model {
	m := must(model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 256, FF: 256, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 128, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1))
	return m
}

// inFolder gives f a folder that is removed afterwards.
func inFolder(f func(folder string)) {
	folder := must(os.MkdirTemp("", "model"))
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
		check(err)
		small := must(model.Load(path, model.LoadOptions{}))
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
		check(err)
		m = must(model.Load(path, model.LoadOptions{
			Repack:   true, // for tokens one by one
			Override: func(c *arch.Config) { c.RoPE.FreqBase = 500000 },
		}))
		defer m.Close()
		fmt.Println(m.Config().RoPE.FreqBase)
	})
	// Output: 500000
}

// The adapters of a graph are matrices by the name of the weight that they are added to.
func ExampleAdapters() {
	m := small()
	defer m.Close()
	adapter := must(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Targets: []string{"attn_q"}}))
	defer adapter.Close()
	var adapters model.Adapters = adapter.WithScale(0.5)
	pair := adapters["blk.1.attn_q.weight"][0]
	fmt.Println(len(adapters), "matrices; A", pair.A.Shape()[:2], "and B", pair.B.Shape()[:2], "count", pair.Scale, "times")
	// Output: 2 matrices; A [256 4] and B [4 256] count 1 times
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
