package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"ernie4_5":  {rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, modules: naming{rotatesNeighbours: true}},
		"paddleocr": {rope: ggml.RoPENeoX, sections: ggml.RoPEMulti, norms: normBefore, act: ggml.SwiGLU, attnBias: Maybe, noExperts: true},
	})
}
