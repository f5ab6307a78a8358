package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"chameleon": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, qkNorm: EachHead, qkLayerEps: 1e-5, qkNormBias: Maybe,
			keys: []key{swinNormKey}, arrange: chameleonLayer, imageTokens: [2]int{4, 8196},
		},
	})
}

var swinNormKey = key{
	name:  "swin_norm",
	read:  func(m *metadata, name string, c *Config) { c.SwinNorm = value(m, m.arch+"."+name, false, true) },
	write: func(c *Config) any { return c.SwinNorm },
}

// chameleonLayer has the norms behind attention and network if the file says so. As in stock llama.cpp, the network then sees
// what attention adds and not the residual stream.
func chameleonLayer(c *Config, _ int, attention, network Residual) Layer {
	if !c.SwinNorm {
		return Layer{attention, network}
	}
	attention.Before, attention.After, attention.Replaces = "", attention.Before, true
	network.Before, network.After = "", network.Before
	return Layer{{Part: Stack{attention, network}}}
}
