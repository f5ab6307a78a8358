package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"command-r": {
			rope: ggml.RoPENorm, norm: norming{layer: true}, norms: normBefore, act: ggml.SwiGLU, arrange: sharedNorm,
			keys: []key{factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, false)}, logitsTimesScale: true,
			layer: commandRLayer, modules: naming{rotatesNeighbours: true},
		},
		"cohere2": {
			rope: ggml.RoPENorm, norm: norming{layer: true}, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, arrange: sharedNorm, ropeFactors: true,
			keys: append(windowKeys(4), factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true)), logitsTimesScale: true,
			layer: cohere2Layer, modules: naming{rotatesNeighbours: true},
		},
	})
}

// commandRLayer has norms of queries and keys in models of 64 layers and more.
func commandRLayer(c *Config, _ int, a *Attention) {
	if c.Layers >= 64 {
		a.QKNorm = EachHead
	}
}

// cohere2Layer has RoPE in local layers alone.
func cohere2Layer(c *Config, i int, a *Attention) { a.NoRoPE = !local(c, i, a) }
