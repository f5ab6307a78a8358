package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"baichuan": {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true, complete: baichuanALiBi, layer: baichuanLayer, modules: baichuanModules},
	})
}

var baichuanModules = naming{matrices: map[Kind]string{"attn_q": "self_attn.W_pack", "attn_k": "self_attn.W_pack", "attn_v": "self_attn.W_pack"}}

// Of the two models the smaller one has RoPE, and the larger one ALiBi: they are told apart by their layers.
const baichuan7B, baichuan13B = 32, 40

func baichuanALiBi(c *Config) {
	if c.Layers == baichuan13B {
		c.MaxALiBiBias = 8
	}
}

func baichuanLayer(c *Config, _ int, a *Attention) { a.NoRoPE = c.Layers != baichuan7B }
