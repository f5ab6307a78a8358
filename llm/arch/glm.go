package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"chatglm": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, fusedGateUp: Always, modules: chatglmModules},
		"glm4": {
			rope: ggml.RoPENorm, sections: ggml.RoPEMulti, norms: normBefore | normAfter, act: ggml.SwiGLU, fusedGateUp: Always, layer: scaledOutput,
			modules: naming{rotatesNeighbours: true, matrices: map[Kind]string{"ffn_gate": "mlp.gate_up_proj", "ffn_up": "mlp.gate_up_proj"}},
		},
		"glm-dsa": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, absorbedSizes, indexerKeys, []key{nextLayersKey, ownIndexers(glmIndexers)}), arrange: sparseLayer(ggml.RoPENorm, 0), unused: unusedNextSparse,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Maybe, Module: "mlp.gate"}, module: "mlp.shared_experts", scales: true, sharedScales: true,
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
		"glm4moe": {
			rope: ggml.RoPENeoX, sections: ggml.RoPEMulti, norms: normBefore, ffnNorm: "post_attention_norm", act: ggml.SwiGLU, qkNorm: PerHead, qkNormThere: Maybe, layer: scaledOutput,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Always, Module: "mlp.gate"}, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var chatglmModules = naming{root: "transformer", layers: "encoder.layers.%d.", embed: "embedding.word_embeddings", head: "output_layer", rotatesNeighbours: true, matrices: map[Kind]string{
	"attn_q": "self_attention.query_key_value", "attn_k": "self_attention.query_key_value", "attn_v": "self_attention.query_key_value",
	"attn_output": "self_attention.dense", "ffn_gate": "mlp.dense_h_to_4h", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
}}

// glmIndexers reports whether a layer has an indexer in files that do not say it: since the context has a million tokens, all
// but the first ones share theirs by four.
func glmIndexers(c *Config, i int) bool { return c.Context < 1<<20 || i < 3 || i%4 == 2 }
