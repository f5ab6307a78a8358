package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"stablelm": {
			rope: ggml.RoPENeoX, norm: norming{layer: true, bias: Always}, norms: normBefore, act: ggml.SwiGLU, untied: true,
			qkNorm: EachHead, qkNormThere: Maybe, mayHave: []Kind{"ffn_norm"}, arrange: stablelmLayer,
		},
	})
}

// stablelmLayer is parallel in models without a norm of the network.
func stablelmLayer(c *Config, i int, attention, network Residual) Layer {
	if c.has("ffn_norm") {
		return Layer{attention, network}
	}
	return sharedNorm(c, i, attention, network)
}
