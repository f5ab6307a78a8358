package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"apertus": {
			rope: ggml.RoPENeoX, norms: normBefore, ungated: XIELU, qkNorm: PerHead, attnBias: Maybe, untied: true, ropeFactors: true, keys: xieluKeys, arrange: xieluLayer,
			unusedInLayers: unusedQKBiases,
		},
	})
}

// xieluLayer has a network whose activation has parameters of the layer.
func xieluLayer(c *Config, i int, attention, network Residual) Layer {
	f := network.Part.(FeedForward)
	f.XIELU = c.XIELU[i]
	network.Part = f
	return Layer{attention, network}
}

// unusedQKBiases are those of the norms of queries and keys.
func unusedQKBiases(*Config) []Weight {
	return []Weight{unused("attn_q_norm.bias"), unused("attn_k_norm.bias")}
}
