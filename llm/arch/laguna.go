package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"laguna": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, perLayer: true, keys: slices.Concat(windowKeys(4), yarnBetas, []key{localBase}), complete: (*Config).firstGlobal, layer: lagunaLayer,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Always, Module: "mlp.gate"}, shared: sharedOrExperts, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// lagunaLayer has a gate for each head, and local layers with a RoPE of their own, which is not
// stretched.
func lagunaLayer(c *Config, i int, a *Attention) {
	a.Gate = HeadSoftplus
	if local(c, i, a) {
		a.RoPE.FreqBase, a.RoPE.FreqScale, a.RoPE.ExtFactor, a.RoPE.AttnFactor = c.LocalFreqBase, 1, 0, 1
	}
}
