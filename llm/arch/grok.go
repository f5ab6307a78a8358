package arch

import (
	"math"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"grok": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.GeGLU, keys: grokKeys, logitsTimesScale: true, arrange: grokLayer, layer: grokAttention, mayHave: []Kind{"ffn_up"},
			mixture: &mixture{
				router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.gate"}, reads: readsWidth,
				shared: grokNetwork, sumScale: math.Sqrt2 / 2, unsuffixed: true, module: "mlp",
			},
		},
	})
}

var grokKeys = []key{
	derived("attn_logit_softcapping", func(c *Config) *float32 { return &c.AttnSoftcap }, constant(30)),
	factor("final_logit_softcapping", func(c *Config) *float32 { return &c.LogitSoftcap }, 0, false),
	derived("embedding_scale", func(c *Config) *float32 { return &c.EmbdScale }, constant(78.38367176906169)),
	derived("attention.output_scale", func(c *Config) *float32 { return &c.AttnScale }, constant(0.08838834764831845)),
	derived("logit_scale", func(c *Config) *float32 { return &c.LogitScale }, constant(0.5773502691896257)),
	derived("rope.scaling.yarn_beta_fast", func(c *Config) *float32 { return &c.RoPE.BetaFast }, constant(8)),
	factor("rope.scaling.yarn_beta_slow", func(c *Config) *float32 { return &c.RoPE.BetaSlow }, yarnBetaSlow, false),
	{
		name: "rope.scaling.yarn_ext_factor", // below 0 stands for the type of scaling
		read: func(m *metadata, name string, _ *Config) {
			usual := float32(0)
			if value(m, m.arch+".rope.scaling.type", "linear", true) == "yarn" {
				usual = yarnExtFactor
			}
			if x := value(m, m.arch+"."+name, usual, true); x >= 0 && x != usual {
				m.fault("%s.%s is %v, which is unsupported; supported: %v", m.arch, name, x, usual)
			}
		},
		write: func(*Config) any { return nil },
	},
}

// grokAttention scales scores only by the key's value.
func grokAttention(c *Config, _ int, a *Attention) { a.Scale = c.AttnScale }

// grokNetwork is the width of the network that files may have beside experts.
func grokNetwork(c *Config) int {
	if c.has("ffn_up") {
		return c.FF
	}
	return 0
}

// grokLayer has norms after attention and experts by names of their own.
func grokLayer(_ *Config, _ int, attention, experts Residual) Layer {
	attention.After, experts.After = "attn_output_norm", "layer_output_norm"
	return Layer{attention, experts}
}
