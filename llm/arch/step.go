package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"step35": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, qkNormThere: Maybe, perLayer: true, untied: true, ropeFactors: true,
			keys: slices.Concat(stepKeys, clampKeys), layer: stepAttention, arrange: clampedLayer, mayHave: []Kind{"attn_gate"},
			modules: naming{matrices: map[Kind]string{"attn_gate": "self_attn.g_proj"}},
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Maybe, Module: "moe.gate"}, shared: func(c *Config) int { return c.SharedFF }, module: "share_expert",
				reads: readsWidth | readsSharedWidth | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var stepKeys = []key{
	count("attention.sliding_window", func(c *Config) *int { return &c.Window }),
	localLayers,
	derived(localFreqBase, func(c *Config) *float32 { return &c.LocalFreqBase }, func(c *Config) float32 { return c.RoPE.FreqBase }),
}

// clampKeys are the bounds of SwiGLU in each layer, for experts and for other networks.
var clampKeys = []key{
	clampKey("swiglu_clamp_exp", func(c *Config) *[]float32 { return &c.ExpertClamps }),
	clampKey("swiglu_clamp_shexp", func(c *Config) *[]float32 { return &c.Clamps }),
}

func clampKey(name string, field func(c *Config) *[]float32) key {
	return key{
		name: name,
		read: func(m *metadata, name string, c *Config) {
			if _, ok := m.g.Value(m.arch + "." + name); ok {
				*field(c) = m.factors(m.arch+"."+name, c.Layers)
			}
		},
		write: func(c *Config) any {
			if *field(c) == nil {
				return nil
			}
			return *field(c)
		},
	}
}

// stepAttention has local layers with a RoPE of their own; the others rotate half as many elements, by factors. A gate for
// each head may be in the file.
func stepAttention(c *Config, i int, a *Attention) {
	if c.has("attn_gate") {
		a.Gate = HeadGate
	}
	if local(c, i, a) {
		c.setLocalRoPE(a)
		a.RoPEFactors = false
	} else {
		a.RoPE.Dims /= 2
	}
}

// clampedLayer limits what networks and experts gate.
func clampedLayer(c *Config, i int, attention, network Residual) Layer {
	clamp := func(of []float32) float32 {
		const least = 1e-6 // in stock llama.cpp, too
		if i < len(of) && of[i] > least {
			return of[i]
		}
		return 0
	}
	switch f := network.Part.(type) {
	case FeedForward:
		f.Clamp = clamp(c.Clamps)
		network.Part = f
	case Experts:
		f.Clamp, f.Shared.Clamp = clamp(c.ExpertClamps), clamp(c.Clamps)
		network.Part = f
	}
	return Layer{attention, network}
}
