package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"deepseek": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, reads: readsWidth | readsSharedCount | readsDense | readsScale, module: "mlp.shared_experts",
			},
		},
	})
}
