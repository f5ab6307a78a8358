package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"afmoe": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.SwiGLU, qkNorm: PerHead, keys: windowKeys(4), complete: gemmaEmbedding, layer: afmoeLayer,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Maybe, Module: "mlp.router.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// afmoeLayer has a gate, and no RoPE in each fourth layer, whichever see windows.
func afmoeLayer(c *Config, i int, a *Attention) {
	local(c, i, a)
	a.Gate, a.NoRoPE = SigmoidGate, (i+1)%4 == 0
}
