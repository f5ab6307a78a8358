package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"mellum": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: windowKeys(4), layer: olmo2Layer,
			mixture: &mixture{scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}, reads: readsWidth | readsGating | readsNormalized},
		},
	})
}
