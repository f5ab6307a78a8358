package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"spark2_5": {rope: ggml.RoPENeoX, norms: normBefore, act: ggml.GeGLU, perLayer: true, keys: sparkKeys, layer: sparkLayer},
	})
}

var sparkKeys = append(windowKeys(1),
	withWindow(derived(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, func(c *Config) float32 { return c.RoPE.FreqBase })),
)

// sparkLayer has a gate for each head, and local layers with a base of their own.
func sparkLayer(c *Config, i int, a *Attention) {
	a.Gate = HeadGate
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
}
