package arch

func init() {
	family(map[string]spec{
		"mpt": {
			noRoPE: true, positions: Maybe, norm: norming{layer: true, bias: Maybe}, norms: normBefore, ungated: GELU, actScales: true,
			attnBias: Maybe, ffnBias: Maybe, qkNorm: AllHeads, qkNormThere: Maybe, qkNormBias: Maybe, keys: []key{clampQKV, alibiKey}, modules: mptModules,
		},
	})
}

var mptModules = naming{root: "transformer", layers: "blocks.%d.", embed: "wte", matrices: map[Kind]string{
	"attn_q": "attn.Wqkv", "attn_k": "attn.Wqkv", "attn_v": "attn.Wqkv", "attn_output": "attn.out_proj", "ffn_up": "ffn.up_proj", "ffn_down": "ffn.down_proj",
}}
