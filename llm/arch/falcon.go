package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"falcon": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU,
			mayHave: []Kind{"attn_norm_2"}, arrange: falconLayer, modules: falconModules,
		},
	})
}

var falconModules = naming{root: "transformer", layers: "h.%d.", embed: "word_embeddings", interleaved: true, matrices: map[Kind]string{
	"attn_q": "self_attention.query_key_value", "attn_k": "self_attention.query_key_value", "attn_v": "self_attention.query_key_value",
	"attn_output": "self_attention.dense", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
}}

// falconLayer has attention and network see the same norm, or in newer models each its own.
func falconLayer(c *Config, i int, attention, network Residual) Layer {
	if !c.has("attn_norm_2") {
		return sharedNorm(c, i, attention, network)
	}
	attention.Before, network.Before = "attn_norm_2", "attn_norm"
	return ownNorms(c, i, attention, network)
}
