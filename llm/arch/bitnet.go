package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"bitnet": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, tied: true, layer: bitnetAttention, arrange: withNetwork(bitnetNetwork),
		},
	})
}

// bitnetAttention normalises the heads' result.
func bitnetAttention(_ *Config, _ int, a *Attention) { a.SubNorm = true }

// bitnetNetwork normalises the input of its last matrix.
func bitnetNetwork(_ *Config, _ int, f *FeedForward) { f.SubNorm = true }
