package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"exaone": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, ropeFactors: true, modules: exaoneModules},
		"exaone4": {
			rope: ggml.RoPENeoX, norms: normAfter, act: ggml.SwiGLU, qkNorm: PerHead, ropeFactors: true,
			keys: windowKeys(4), complete: exaone4Window, layer: exaone4Layer,
		},
		"exaone-moe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, ropeFactors: true, keys: windowKeys(4), layer: exaone4Layer,
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.gate"}, shared: sharedOrExpert, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var exaoneModules = naming{root: "transformer", layers: "h.%d.", embed: "wte", matrices: map[Kind]string{
	"attn_q": "attn.attention.q_proj", "attn_k": "attn.attention.k_proj", "attn_v": "attn.attention.v_proj", "attn_output": "attn.attention.out_proj",
	"ffn_gate": "mlp.c_fc_0", "ffn_up": "mlp.c_fc_1", "ffn_down": "mlp.c_proj",
}}

// exaone4Window drops the window unless the model has 64 layers: in other models the key says
// nothing.
func exaone4Window(c *Config) {
	if c.Layers != 64 {
		c.Window, c.WindowPattern, c.LocalLayers = 0, 0, nil
	}
}

// exaone4Layer has RoPE in local layers; in all layers if none is local.
func exaone4Layer(c *Config, i int, a *Attention) { a.NoRoPE = !local(c, i, a) && c.Window > 0 }
