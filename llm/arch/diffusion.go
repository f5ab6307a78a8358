package arch

import "github.com/goggml/ggml"

// Models of text diffusion, which rewrite a text until none of its tokens is masked.
func init() {
	family(map[string]spec{
		"dream": {
			rope: ggml.RoPENeoX, bidirectional: true, norms: normBefore, act: ggml.SwiGLU, keys: []key{notCausal}, unused: unusedOutputBias,
		},
		"llada": {
			rope: ggml.RoPENorm, bidirectional: true, norms: normBefore, act: ggml.SwiGLU, keys: []key{notCausal}, modules: lladaModules,
			unused: unusedFactors, unusedInLayers: unusedBiases,
		},
		"llada-moe": {
			rope: ggml.RoPENeoX, bidirectional: true, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: []key{notCausal},
			mixture: &mixture{reads: readsWidth, router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}},
		},
		"rnd1": {
			rope: ggml.RoPENeoX, bidirectional: true, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, keys: []key{notCausal},
			mixture: &mixture{reads: readsWidth, router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}},
		},
	})
}

var lladaModules = naming{root: "model.transformer", layers: "blocks.%d.", embed: "wte", head: "model.transformer.ff_out", matrices: map[Kind]string{
	"attn_q": "q_proj", "attn_k": "k_proj", "attn_v": "v_proj", "attn_output": "attn_out",
	"ffn_gate": "ff_proj", "ffn_up": "up_proj", "ffn_down": "ff_out",
}}
