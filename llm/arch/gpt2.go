package arch

import "github.com/goggml/ggml"

func init() {
	gpt2 := spec{
		noRoPE: true, positions: Always, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU,
		qkvBias: Always, attnBias: Always, ffnBias: Always, modules: gpt2Modules,
	}
	family(map[string]spec{
		"gpt2":      gpt2,
		"starcoder": gpt2,
		"codeshell": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU,
			attnBias: Always, ffnBias: Always, untied: true, modules: gpt2Modules,
		},
		"jais": {
			noRoPE: true, norm: norming{layer: true, bias: Always}, norms: normBefore, act: ggml.SwiGLU,
			qkvBias: Always, attnBias: Always, ffnBias: Always, untied: true, modules: gpt2Modules,
			keys: []key{alibiKey}, complete: jaisScale,
		},
	})
}

var gpt2Modules = naming{root: "transformer", layers: "h.%d.", embed: "wte", matrices: map[Kind]string{
	"attn_q": "attn.c_attn", "attn_k": "attn.c_attn", "attn_v": "attn.c_attn", "attn_output": "attn.c_proj",
	"ffn_up": "mlp.c_fc", "ffn_gate": "mlp.c_fc2", "ffn_down": "mlp.c_proj",
}}

var alibiKey = factor("attention.max_alibi_bias", func(c *Config) *float32 { return &c.MaxALiBiBias }, 0, false)

// jaisScale is muP's: 1/size, not its root.
func jaisScale(c *Config) { c.AttnScale = 1 / float32(max(1, c.HeadSize)) }
