package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"afmoe": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.SwiGLU, qkNorm: PerHead, keys: append(windowKeys(4), localBase), complete: gemmaEmbedding, layer: afmoeLayer,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Maybe, Module: "mlp.router.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// afmoeLayer has a gate, local layers with a base of their own, and no RoPE in each fourth, whichever
// see windows.
func afmoeLayer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
	a.Gate, a.NoRoPE = SigmoidGate, (i+1)%4 == 0
}
