package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"nemotron": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: SquaredReLU, attnBias: Maybe, ffnBias: Maybe, untied: true,
		},
		"jais2": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, ungated: SquaredReLU, attnBias: Always, ffnBias: Always, layer: scaledOutput,
		},
		"orion": {rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, act: ggml.SwiGLU, untied: true},
	})
}
