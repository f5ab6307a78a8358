package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"dbrx": {
			rope: ggml.RoPENeoX, norm: norming{layer: true}, norms: normBefore, ffnNorm: "attn_output_norm", act: ggml.SwiGLU, untied: true, keys: []key{clampQKV},
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "ffn.router.layer"}}, modules: dbrxModules,
		},
	})
}

var dbrxModules = naming{root: "transformer", layers: "blocks.%d.", embed: "wte", matrices: map[Kind]string{
	"attn_q": "norm_attn_norm.attn.Wqkv", "attn_k": "norm_attn_norm.attn.Wqkv", "attn_v": "norm_attn_norm.attn.Wqkv", "attn_output": "norm_attn_norm.attn.out_proj",
}}
