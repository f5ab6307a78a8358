package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"phi3": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, fusedGateUp: true, ropeFactors: true, fusedModules: true},
	})
}
