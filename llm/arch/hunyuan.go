package arch

import (
	"math"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"hunyuan-dense": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true, keys: []key{ropeAlpha},
		},
		"hunyuan_vl": {
			rope: ggml.RoPENeoX, sections: ggml.RoPEMulti, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormAfterRoPE: true, keys: []key{ropeAlpha},
		},
	})
}

// ropeAlpha stretches the base of RoPE for longer contexts (NTK-aware scaling). What is written is
// the stretched base alone.
var ropeAlpha = key{
	name: "rope.scaling.alpha",
	read: func(m *metadata, name string, c *Config) {
		if alpha := value(m, m.arch+"."+name, float32(0), true); alpha > 0 && c.HeadSize > 2 {
			c.RoPE.FreqBase *= float32(math.Pow(float64(alpha), float64(c.HeadSize)/float64(c.HeadSize-2)))
		}
	},
	write: func(*Config) any { return nil },
}
