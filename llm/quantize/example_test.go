package quantize_test

import (
	"fmt"
	"log"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/quantize"
)

// small has two layers.
func small() *arch.Architecture {
	a, err := arch.Resolve(arch.Config{
		Arch: "llama", Vocab: 64, Context: 128, Embd: 256, FF: 256, Layers: 2, Heads: 2, KVHeads: 1, HeadSize: 128, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 128, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	})
	if err != nil {
		log.Fatal(err)
	}
	return a
}

// See which types llama-quantize's Q4_K_M gives to matrices.
func ExampleMixture() {
	a := small()
	mixture, _ := quantize.FindMixture("Q4_K_M")
	for _, name := range []string{"blk.0.ffn_up.weight", "blk.1.attn_v.weight", "output.weight"} {
		t, _ := mixture.TypeOf(a, a.Weight(name), nil)
		fmt.Println(name, t)
	}
	// Output:
	// blk.0.ffn_up.weight q4_K
	// blk.1.attn_v.weight q6_K
	// output.weight q6_K
}

// An importance matrix has a number for each column of a matrix. The smallest mixtures need one.
func ExampleImportance() {
	a := small()
	i := quantize.Importance{"blk.0.attn_v.weight": make([]float32, 256)} // or quantize.ReadImportance, of llama-imatrix's file
	mixture, _ := quantize.FindMixture("iq2_xs")
	t, _ := mixture.TypeOf(a, a.Weight("blk.0.attn_v.weight"), i)
	fmt.Println(mixture.NeedsImportance(), t)
	// Output: true q2_K
}
