package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"granite": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ropeFactors: true, keys: graniteKeys, layer: skipRoPE, scaledLater: true, mixture: &mixture{reads: readsSharedWidth, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.router.layer"}, module: "shared_mlp"}},
	})
}

var graniteKeys = []key{
	{
		name: "rope.scaling.finetuned", // granite's way to say that there is RoPE at all
		read: func(m *metadata, name string, c *Config) {
			if !value(m, m.arch+"."+name, true, true) {
				c.NoRoPEStep = 1
			}
		},
		write: func(c *Config) any { return c.NoRoPEStep == 0 },
	},
	factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true),
	factor("residual_scale", func(c *Config) *float32 { return &c.ResidualScale }, 0, false),
	factor("embedding_scale", func(c *Config) *float32 { return &c.EmbdScale }, 0, false),
	factor("attention.scale", func(c *Config) *float32 { return &c.AttnScale }, 0, false),
}
