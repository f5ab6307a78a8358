package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"smollm3": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, complete: smollm3Steps, layer: skipRoPE},
	})
}

// Every fourth layer of SmolLM3 has no position embedding (NoPE).
func smollm3Steps(c *Config) { c.NoRoPEStep = 4 }
