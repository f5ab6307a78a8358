package arch

import (
	"cmp"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"bailingmoe": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, reads: readsWidth | readsSharedCount | readsNormalized | readsScale, module: "mlp.shared_experts",
			},
		},
		"bailingmoe2": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true,
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.gate"}, shared: bailing2Shared, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// bailing2Shared is the width of as many networks as there are shared experts.
func bailing2Shared(c *Config) int { return c.SharedExperts * cmp.Or(c.SharedFF, c.ExpertFF) }
