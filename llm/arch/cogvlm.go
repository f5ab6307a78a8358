package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		// The experts for images stay unused.
		"cogvlm": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, noQKVScale: true, layer: plainRoPE, unused: unusedFactors, unusedInLayers: visualExperts},
	})
}

func visualExperts(c *Config) []Weight {
	heads := c.Heads * c.HeadSize
	return []Weight{
		unused("vis_attn_qkv.weight", c.Embd, 3*heads), unused("vis_attn_output.weight", heads, c.Embd),
		unused("vis_gate.weight", c.Embd, c.FF), unused("vis_up.weight", c.Embd, c.FF), unused("vis_down.weight", c.FF, c.Embd),
	}
}

// plainRoPE ignores the file's scaling of RoPE.
func plainRoPE(_ *Config, _ int, a *Attention) {
	a.RoPE.Dims, a.RoPE.FreqBase, a.RoPE.FreqScale, a.RoPE.ExtFactor, a.RoPE.AttnFactor = a.HeadSize, 10000, 1, 0, 1
}
