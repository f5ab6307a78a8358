package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"muse-glimmer": {
			rope: ggml.RoPENorm, embdNorm: bareNorm, norms: normBefore | normAfter, afterEps: 1e-8, act: ggml.SwiGLU, qkNorm: PerHead, untied: true,
			logitsTimesScale: true, keys: museKeys, layer: museLayer,
		},
	})
}

var museKeys = append(windowKeys(4),
	localBase,
	factor("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, 0, false),
	factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true),
)

// museLayer has a gate, and RoPE in local layers alone, with a base of their own, which is not
// stretched.
func museLayer(c *Config, i int, a *Attention) {
	a.Gate = SigmoidGate
	if a.NoRoPE = !local(c, i, a); !a.NoRoPE {
		a.RoPE.FreqBase, a.RoPE.FreqScale = c.LocalFreqBase, 1
	}
}
