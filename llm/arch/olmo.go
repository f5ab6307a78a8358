package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"olmo": {
			rope: ggml.RoPENorm, norm: norming{layer: true, bare: true}, norms: normBefore, act: ggml.SwiGLU,
			keys: []key{clampQKV},
		},
		"olmo2": {
			rope: ggml.RoPENeoX, norms: normAfter, act: ggml.SwiGLU, qkNorm: AllHeads, untied: true,
			keys: windowKeys(4), layer: olmo2Layer,
		},
		"olmoe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: AllHeads, untied: true,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}},
		},
	})
}

var clampQKV = factor("attention.clamp_kqv", func(c *Config) *float32 { return &c.ClampQKV }, 0, false)

// olmo2Layer has local layers with a RoPE that does not reach beyond the context of its
// training. As in stock llama.cpp it has the base of all: rope.freq_base_swa says nothing.
func olmo2Layer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		a.RoPE.FreqScale, a.RoPE.ExtFactor, a.RoPE.AttnFactor = 1, 0, 1
	}
}
