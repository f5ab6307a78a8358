package arch

import (
	"math"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"minicpm3": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, ropeFactors: true, keys: latentKeys, logitsTimesScale: true, complete: minicpm3Scales, arrange: latentLayer,
		},
	})
}

// minicpm3Scales are those that no key says.
func minicpm3Scales(c *Config) {
	c.EmbdScale, c.ResidualScale, c.LogitScale = 12, float32(1.4/math.Sqrt(float64(max(1, c.Layers)))), 256/float32(max(1, c.Embd))
}

func latentLayer(c *Config, _ int, attention, network Residual) Layer {
	attention.Part = latentAttention(c, attention.Part.(Attention))
	return Layer{attention, network}
}
