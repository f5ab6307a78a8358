package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

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
		"cohere2moe": {
			rope: ggml.RoPENorm, norm: norming{byEps: true}, norms: normBefore, act: ggml.SwiGLU, ffnScales: true, arrange: sharedNorm, ropeFactors: true,
			keys: slices.Concat(epsKeys, windowKeys(4), []key{factor("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, 0, true)}), logitsTimesScale: true,
			complete: (*Config).firstGlobal, layer: cohere2MoELayer, modules: naming{rotatesNeighbours: true},
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, Module: "mlp.gate"}, scales: true, sharedScales: true, sumScale: 0.5, module: "mlp.shared_experts",
				reads: readsWidth | readsSharedWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

// commandRLayer normalises queries and keys in models of 64 layers or more.
func commandRLayer(c *Config, _ int, a *Attention) {
	if c.Layers >= 64 {
		a.QKNorm = EachHead
	}
}

// cohere2Layer applies RoPE in local layers only.
func cohere2Layer(c *Config, i int, a *Attention) { a.NoRoPE = !local(c, i, a) }

// cohere2MoELayer has RoPE in local layers, and in those without experts.
func cohere2MoELayer(c *Config, i int, a *Attention) {
	a.NoRoPE = !local(c, i, a) && i >= c.DenseLayers
}
