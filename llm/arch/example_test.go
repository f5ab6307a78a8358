package arch_test

import (
	"fmt"
	"strings"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// The weights of a model follow from its hyper-parameters.
func ExampleResolve() {
	a, err := arch.Resolve(arch.Config{
		Arch: "qwen2", Vocab: 1000, Context: 256, Embd: 64, FF: 128, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5, Tied: true,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENeoX, FreqBase: 10000, FreqScale: 1, TrainedCtx: 256, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := a.Weight("blk.1.attn_k.weight")
	fmt.Println(w.Kind, "of layer", w.Layer, w.Shape, "is", w.Rows[0].Module)
	fmt.Println("adaptable in each layer:", a.Linears())
	fmt.Println(a.Config().NumParameters(), "parameters")
	// Output:
	// attn_k of layer 1 [64 32] is layers.1.self_attn.k_proj
	// adaptable in each layer: [attn_q attn_k attn_v attn_output ffn_gate ffn_up ffn_down]
	// 138048 parameters
}

// Layers are values: a model can be made of layers that no row of the table has.
func ExampleNew() {
	c := arch.Config{
		Arch: "llama", Vocab: 100, Context: 64, Embd: 64, FF: 96, Layers: 1, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 64, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	usual, err := arch.Resolve(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	attention, network := usual.Layers()[0][0], usual.Layers()[0][1]
	wide := network
	wide.Part = arch.FeedForward{Width: 256, Act: ggml.SwiGLU}
	a, err := arch.New(c, []arch.Layer{{attention, network}, {attention, wide}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(a.Weight("blk.0.ffn_up.weight").Shape, a.Weight("blk.1.ffn_up.weight").Shape)
	// Output: [64 96] [64 256]
}

// Hyper-parameters have the keys that stock llama.cpp reads.
func ExampleConfig_HyperParameters() {
	c := arch.Config{
		Arch: "qwen2", Vocab: 1000, Context: 256, Embd: 64, FF: 128, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 16, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 16, Mode: ggml.RoPENeoX, FreqBase: 10000, FreqScale: 1, TrainedCtx: 256, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}
	for key, value := range c.HyperParameters() {
		if strings.Contains(key, ".rope.") {
			fmt.Println(key, value)
		}
	}
	// Output:
	// qwen2.rope.dimension_count 16
	// qwen2.rope.freq_base 10000
}
