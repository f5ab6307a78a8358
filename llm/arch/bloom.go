package arch

func init() {
	family(map[string]spec{
		"bloom": {
			noRoPE: true, norm: norming{layer: true, bias: Always}, embdNorm: weightedNorm, norms: normBefore, ungated: GELU,
			qkvBias: Always, attnBias: Always, ffnBias: Always, complete: alibi8, modules: bloomModules,
		},
	})
}

var bloomModules = naming{root: "transformer", layers: "h.%d.", embed: "word_embeddings", interleaved: true, matrices: map[Kind]string{
	"attn_q": "self_attention.query_key_value", "attn_k": "self_attention.query_key_value", "attn_v": "self_attention.query_key_value",
	"attn_output": "self_attention.dense", "ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
}}

// alibi8 sets ALiBi's bias as in its paper, for files without a key.
func alibi8(c *Config) { c.MaxALiBiBias = 8 }
