package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"plm": {rope: ggml.RoPENorm, norms: normBefore, ungated: SquaredReLU, tied: true, keys: latentValueKeys, arrange: latentLayer},
	})
}
