package estimate_test

import (
	"fmt"
	"log"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/estimate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/model"
)

func TestMain(m *testing.M) { optest.Main(m) }

// tinyModel returns a model with random weights.
func tinyModel() *model.Model {
	m, err := model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 32, FF: 48, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 1)
	if err != nil {
		log.Fatal(err)
	}
	return m
}

// Estimate the memory of a layout before anything is allocated there.
func ExampleMemory() {
	m := tinyModel()
	defer m.Close()
	needs := estimate.New()
	if err := infer.AddEstimate(needs, m, infer.SessionOptions{Context: 64}); err != nil {
		log.Fatal(err)
	}
	need, err := needs.In(layout.Layout{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(need.Total() > m.Sizes().Total())
	// Output: true
}
