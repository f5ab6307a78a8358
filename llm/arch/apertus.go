package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"apertus": {
			rope: ggml.RoPENeoX, norms: normBefore, ungated: XIELU, qkNorm: PerHead, attnBias: Maybe, untied: true, ropeFactors: true, keys: xieluKeys, arrange: withNetwork(xieluNetwork),
			unusedInLayers: unusedQKBiases,
		},
	})
}

// xieluNetwork sets the layer's parameters of the activation.
func xieluNetwork(c *Config, i int, f *FeedForward) { f.XIELU = c.XIELU[i] }

// unusedQKBiases are biases of the query and key norms.
func unusedQKBiases(*Config) []Weight {
	return []Weight{unused("attn_q_norm.bias"), unused("attn_k_norm.bias")}
}
