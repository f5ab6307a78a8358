package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"qwen2": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, outputBias: true},
		"qwen2moe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU,
			mixture: &mixture{reads: readsWidth | readsSharedWidth, router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, sharedGate: true, module: "mlp.shared_expert"},
		},
		"qwen3moe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead,
			mixture: &mixture{reads: readsWidth, scales: true, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}},
		},
		"qwen3": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, ffnScales: true, unused: classifier},
	})
}

// classifier is the head of a reranker, which text models carry along.
var classifier = []Weight{{Name: "cls.output.weight", Role: Unused, Optional: true}}
