package arch

import (
	"slices"

	"github.com/goggml/ggml"
)

func init() {
	family(map[string]spec{
		"kimi-k3": {
			rope: ggml.RoPENorm, noRoPE: true, norms: normBefore, act: ggml.SwiGLU, untied: true, perLayer: true, outputNoLoRA: true,
			keys: slices.Concat(latentKeys, mlaSizes, kimiKeys, kimiK3Keys, situKeys), arrange: kimiK3Layer, layerOrder: attentionResidualOrder, unsuffixed: []Kind{"ssm_a"},
			unusedInLayers: unusedKimiBiases,
			mixture: &mixture{
				router: Router{ChoiceBias: Always, Plain: true}, shared: sharedOrExperts,
				reads: readsWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var kimiK3Keys = []key{
	factor("kda.gate_lower_bound", func(c *Config) *float32 { return &c.DecayBound }, 0, false),
	optional("expert_latent_length", func(c *Config) *int { return &c.ExpertLatent }, always(0)),
	size("attn_res.block_size", func(c *Config) *int { return &c.ResidualStep }),
}

// kimiK3Layer has delta attention whose output gate is one matrix, or latent attention with a gate for each element, experts
// of a latent vector, and attention residuals. Stock llama.cpp adapts the experts alone.
func kimiK3Layer(c *Config, i int, attention, network Residual) Layer {
	l := kimiLayer(c, i, attention, network)
	switch a := l[0].Part.(type) {
	case KimiDelta:
		a.FullGate, a.Gate, a.Negated, a.DecayBound = true, "ssm_g", true, c.DecayBound
		l[0].Part = a
	case LatentAttention:
		a.Gate, a.PlainOutput = SigmoidGate, true
		l[0].Part = a
	}
	switch f := l[1].Part.(type) {
	case FeedForward:
		f.SiTU, f.Plain = c.SiTU, true
		l[1].Part = f
	case Experts:
		f.SiTU, f.Shared.SiTU, f.Shared.Plain = c.SiTU, c.SiTU, true
		l[1].Part = f
	}
	return attentionResiduals(latentExperts("ffn_routed")(c, i, l[0], l[1]), i, c.ResidualStep)
}
