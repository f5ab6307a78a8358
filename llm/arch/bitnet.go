package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"bitnet": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, tied: true, layer: bitnetAttention, arrange: withNetwork(bitnetNetwork),
		},
	})
}

// bitnetAttention normalises what the heads gather.
func bitnetAttention(_ *Config, _ int, a *Attention) { a.SubNorm = true }

// bitnetNetwork normalises what it multiplies last.
func bitnetNetwork(_ *Config, _ int, f *FeedForward) { f.SubNorm = true }
