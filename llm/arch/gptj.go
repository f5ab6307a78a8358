package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"gptj": {
			rope: ggml.RoPENorm, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU, arrange: sharedNorm,
			ffnBias: Always, untied: true, outputBias: Always, modules: gptjModules,
		},
	})
}

var gptjModules = naming{root: "transformer", layers: "h.%d.", embed: "wte", rotatesNeighbours: true, matrices: map[Kind]string{
	"attn_q": "attn.q_proj", "attn_k": "attn.k_proj", "attn_v": "attn.v_proj", "attn_output": "attn.out_proj", "ffn_up": "mlp.fc_in", "ffn_down": "mlp.fc_out",
}}
