package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"maple": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: mapleKeys, layer: localRoPE,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}, reads: readsWidth, limit: swigluClamp},
		},
	})
}

// mapleKeys include the limit of SwiGLU: a list for layers, which must all have the same.
var mapleKeys = append(append(windowKeys(4), localBase), key{
	name: "swiglu_clamp_exp",
	read: func(m *metadata, name string, c *Config) {
		c.SwiGLUClamp = m.uniformFactor(name, 7)
	},
	write: func(c *Config) any { return slices.Repeat([]float32{c.SwiGLUClamp}, c.Layers) },
})

func swigluClamp(c *Config) float32 { return c.SwiGLUClamp }

// localRoPE has RoPE in local layers alone, with a base of their own.
func localRoPE(c *Config, i int, a *Attention) {
	if a.NoRoPE = !local(c, i, a); !a.NoRoPE {
		c.setLocalRoPE(a)
	}
}
