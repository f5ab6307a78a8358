package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"bitnet": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, tied: true, layer: bitnetAttention, arrange: bitnetLayer,
		},
	})
}

// bitnetAttention normalises what the heads gather.
func bitnetAttention(_ *Config, _ int, a *Attention) { a.SubNorm = true }

// bitnetLayer normalises what the network multiplies last.
func bitnetLayer(_ *Config, _ int, attention, network Residual) Layer {
	f := network.Part.(FeedForward)
	f.SubNorm = true
	network.Part = f
	return Layer{attention, network}
}
