package arch

import (
	"cmp"
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"bailingmoe": {
			rope: ggml.RoPENorm, norms: normBefore, act: ggml.SwiGLU, untied: true,
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Module: "mlp.gate"}, reads: readsWidth | readsSharedCount | readsNormalized | readsScale, module: "mlp.shared_experts",
			},
		},
		"bailingmoe2": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true,
			mixture: &mixture{
				router: Router{ChoiceBias: Maybe, Module: "mlp.gate"}, shared: bailing2Shared, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
		"bailingmoe3": {
			rope: ggml.RoPENorm, sections: ggml.RoPEMulti, norms: normBefore, act: ggml.SwiGLU, perLayer: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, mlaSizes, kimiKeys, boundedDecayKeys, clampKeys), arrange: bailing3Layer, unsuffixed: []Kind{"ssm_a"}, unusedInLayers: unusedKimiBiases,
			mixture: &mixture{
				router: Router{ChoiceBias: Always, Module: "mlp.gate"}, shared: sharedOrExperts, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedCount | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// bailing2Shared is the width of as many networks as there are shared experts.
func bailing2Shared(c *Config) int { return c.SharedExperts * cmp.Or(c.SharedFF, c.ExpertFF) }

// boundedDecayKeys are the keys of decays that have a lower bound.
var boundedDecayKeys = []key{
	factor("kda.gate_lower_bound", func(c *Config) *float32 { return &c.DecayBound }, 0, true),
	{
		name: "kda.safe_gate",
		read: func(m *metadata, name string, _ *Config) {
			if !value(m, m.arch+"."+name, true, true) {
				m.fault("%s.%s is false: decays without a lower bound are unsupported", m.arch, name)
			}
		},
		write: func(*Config) any { return true },
	},
}

// bailing3Layer puts delta attention whose decays have a bound into layers without key heads, and latent attention with a gate
// for each head into others.
func bailing3Layer(c *Config, i int, attention, network Residual) Layer {
	l := clampedLayer(c, i, kimiLayer(c, i, attention, network)[0], network)
	switch a := l[0].Part.(type) {
	case KimiDelta:
		a.FullDecay, a.FullGate, a.DecayBound = true, true, c.DecayBound
		l[0].Part = a
	case LatentAttention:
		a.Gate, a.PlainOutput = HeadGate, true
		l[0].Part = a
	}
	return l
}
