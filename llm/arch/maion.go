package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"maion-coder": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: append(windowKeys(1), latentSize), layer: maionLayer, arrange: latentExperts("ffn_latent"),
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}, reads: readsWidths | readsStep},
		},
	})
}

var latentSize = count("moe_latent_size", func(c *Config) *int { return &c.ExpertLatent })

// maionLayer has RoPE in local layers alone.
func maionLayer(c *Config, i int, a *Attention) {
	if a.NoRoPE = !local(c, i, a); !a.NoRoPE {
		c.stretchLocalRoPE(a)
	}
}
