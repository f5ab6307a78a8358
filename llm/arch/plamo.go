package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"plamo": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, untied: true, arrange: sharedNorm, layer: wholeHeads, modules: naming{layers: "layers.layers.%d."}},
		"plamo3": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.SwiGLU, fusedGateUp: Always, qkNorm: PerHead, noQKVScale: true,
			keys: plamo3Keys, layer: gemma3Layer, unsuffixed: []Kind{"post_attention_norm", "post_ffw_norm"}, modules: plamo3Modules,
		},
	})
}

// wholeHeads rotates all elements of a head and ignores the file's key.
func wholeHeads(_ *Config, _ int, a *Attention) { a.RoPE.Dims = a.HeadSize }

var plamo3Keys = append(windowKeys(8), withWindow(factor(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, 10000, false)))

var plamo3Modules = naming{layers: "layers.layers.%d.", matrices: map[Kind]string{
	"attn_q": "mixer.qkv_proj", "attn_k": "mixer.qkv_proj", "attn_v": "mixer.qkv_proj", "attn_output": "mixer.o_proj",
	"ffn_gate": "mlp.gate_up_proj", "ffn_up": "mlp.gate_up_proj",
}}
