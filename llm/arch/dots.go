package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"dots1": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true,
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.gate"},
				reads:  readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale, module: "mlp.shared_experts",
			},
		},
	})
}
