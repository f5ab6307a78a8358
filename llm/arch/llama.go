package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"llama": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, biases: true, ffnScales: true, ropeFactors: true, mixture: &mixture{scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}}},
	})
}
