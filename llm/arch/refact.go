package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"refact": {noRoPE: true, norms: normBefore, act: ggml.SwiGLU, complete: alibi8, unused: unusedFactors, unusedInLayers: unusedBiases},
	})
}

// unusedBiases are some that stock llama.cpp reads alone.
func unusedBiases(c *Config) []Weight {
	return []Weight{
		unused("attn_output.bias", c.Embd), unused("ffn_gate.bias", c.FF), unused("ffn_up.bias", c.FF), unused("ffn_down.bias", c.Embd),
	}
}
