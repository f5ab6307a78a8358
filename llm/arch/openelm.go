package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"openelm": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, noQKVScale: true, perLayer: true, modules: openelmModules},
	})
}

var openelmModules = naming{root: "transformer", embed: "token_embeddings", matrices: map[Kind]string{
	"attn_q": "attn.qkv_proj", "attn_k": "attn.qkv_proj", "attn_v": "attn.qkv_proj", "attn_output": "attn.out_proj",
	"ffn_gate": "ffn.proj_1", "ffn_up": "ffn.proj_1", "ffn_down": "ffn.proj_2",
}}
