package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"phi2": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU, arrange: sharedNorm,
			attnBias: Always, ffnBias: Always, untied: true, outputBias: Always, modules: phi2Modules,
		},
		"phi3": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, fusedGateUp: Always, ropeFactors: true, modules: fusedModules},
		"phimoe": {
			rope: ggml.RoPENeoX, norm: norming{bias: Always}, norms: normBefore, act: ggml.SwiGLU, attnBias: Always, untied: true, outputBias: Always,
			ropeFactors: true, mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.gate"}},
		},
	})
}

var phi2Modules = naming{matrices: map[Kind]string{"attn_output": "self_attn.dense", "ffn_up": "mlp.fc1", "ffn_down": "mlp.fc2"}}
