package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"minimax-01": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, keys: minimax01Keys, arrange: minimax01Layer, modules: minimax01Modules,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.gate"}, reads: readsScale},
		},
		"minimax-m2": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: AllHeads, untied: true,
			mixture: &mixture{router: Router{Normalized: true, ChoiceBias: Always, Module: "block_sparse_moe.gate"}, reads: readsGating},
		},
	})
}

var minimax01Keys = []key{
	{
		name: "residual_scale",
		read: func(m *metadata, name string, c *Config) {
			if c.ResidualScale = value[float32](m, m.arch+"."+name, 1, false); c.ResidualScale == 0 {
				m.fault("%s.%s is 0", m.arch, name)
			}
		},
		write: func(c *Config) any { return c.ResidualScale },
	},
	optional("full_attention_interval", func(c *Config) *int { return &c.AttentionStep }, always(8)),
	recurrentFlags,
}

// minimax01Layer adds to normalised vectors, times a factor. Recurrent layers have lightning attention, which forgets more
// slowly from layer to layer.
func minimax01Layer(c *Config, i int, attention, network Residual) Layer {
	if c.isRecurrent(i) {
		a := attention.Part.(Attention)
		attention.Part = Lightning{Heads: a.Heads, HeadSize: a.HeadSize, Slowness: float32(1 - float64(i)/float64(max(1, c.Layers-1)) + 1e-5)}
	}
	for _, r := range []*Residual{&attention, &network} {
		r.Scale, r.Normalized = 0, c.ResidualScale
	}
	return Layer{attention, network}
}

var minimax01Modules = naming{matrices: map[string]string{"attn_qkv": "self_attn.qkv_proj", "attn_gate": "self_attn.output_gate"}}
