package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"ernie4_5":  {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, modules: naming{rotatesNeighbours: true}, unusedInLayers: unusedOutputBiases, noExperts: true},
		"paddleocr": {rope: ggml.RoPENeoX, sections: ggml.RoPEMulti, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, noExperts: true},
		"ernie4_5-moe": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, modules: naming{rotatesNeighbours: true}, unusedInLayers: unusedOutputBiases,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Normalized: true, ChoiceBias: Maybe, Module: "mlp.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedWidth | readsDense | readsStep,
			},
		},
	})
}

// unusedOutputBiases are some that stock llama.cpp reads alone.
func unusedOutputBiases(c *Config) []Weight { return []Weight{unused("attn_output.bias", c.Embd)} }
