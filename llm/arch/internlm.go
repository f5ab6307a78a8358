package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"internlm2": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true, modules: internlm2Modules},
	})
}

// internlm2Modules have queries, keys and values of each group of heads side by side.
var internlm2Modules = naming{embed: "tok_embeddings", head: "output", interleaved: true, matrices: map[Kind]string{
	"attn_q": "attention.wqkv", "attn_k": "attention.wqkv", "attn_v": "attention.wqkv", "attn_output": "attention.wo",
	"ffn_gate": "feed_forward.w1", "ffn_up": "feed_forward.w3", "ffn_down": "feed_forward.w2",
}}
