package arch

import "github.com/goggml/ggml"

func init() {
	starcoder2 := spec{
		rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU, attnBias: Always, ffnBias: Always,
		modules: naming{matrices: map[Kind]string{"ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}},
	}
	family(map[string]spec{
		"starcoder2": starcoder2,
		"pockettts":  {rope: ggml.RoPENorm, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: GELU, modules: naming{rotatesNeighbours: true}},
	})
}
