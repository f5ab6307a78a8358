package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"gptneox": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU,
			qkvBias: Always, attnBias: Always, ffnBias: Always, untied: true, keys: []key{parallelKey}, arrange: gptneoxLayer, modules: gptneoxModules,
		},
	})
}

var gptneoxModules = naming{root: "gpt_neox", embed: "embed_in", head: "embed_out", interleaved: true, matrices: map[Kind]string{
	"attn_q": "attention.query_key_value", "attn_k": "attention.query_key_value", "attn_v": "attention.query_key_value", "attn_output": "attention.dense",
	"ffn_up": "mlp.dense_h_to_4h", "ffn_down": "mlp.dense_4h_to_h",
}}

var parallelKey = key{
	name:  "use_parallel_residual",
	read:  func(m *metadata, name string, c *Config) { c.Parallel = value(m, m.arch+"."+name, false, false) },
	write: func(c *Config) any { return c.Parallel },
}

func gptneoxLayer(c *Config, i int, attention, network Residual) Layer {
	if c.Parallel {
		return ownNorms(c, i, attention, network)
	}
	return Layer{attention, network}
}
