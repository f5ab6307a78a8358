package arch

import "github.com/goggml/ggml"

func init() {
	family(map[string]spec{
		"k2-horizon": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: HeadGroups, qkNormThere: Maybe, keys: k2Keys, layer: k2Layer,
			mixture: &mixture{
				router: Router{Gating: GatingSigmoid, ChoiceBias: Maybe, Module: "mlp.gate"}, shared: k2Shared, module: "mlp.shared_experts",
				reads: readsWidths | readsSharedWidth | readsSharedCount | readsDense | readsGating | readsNormalized | readsScale,
			},
		},
	})
}

var k2Keys = append(yarnBetas,
	optional("attention.group_norm_groups", func(c *Config) *int { return &c.NormGroups }, always(0)),
	optional("attention.value_expert_count", func(c *Config) *int { return &c.ValueExperts }, always(0)),
	optional("attention.value_expert_used_count", func(c *Config) *int { return &c.ValueExpertsUsed }, always(0)),
)

// k2Layer adds a gate, and in layers with experts also experts for the values, chosen in the same way.
func k2Layer(c *Config, i int, a *Attention) {
	a.Gate = Softplus2Gate
	if c.ValueExperts > 0 && !c.isDense(i) {
		a.ValueRouter = Router{
			Experts: c.ValueExperts, Used: c.ValueExpertsUsed, Gating: c.Gating, Normalized: c.NormalizedExperts, Scale: c.ExpertScale,
			ChoiceBias: Maybe, Kind: "attn_v_gate", Module: "self_attn.v_router",
		}
	}
}

// k2Shared returns the width of the shared network; 0 if no expert is shared.
func k2Shared(c *Config) int {
	if c.SharedExperts > 0 && c.SharedFF > 0 {
		return c.SharedFF
	}
	return c.SharedExperts * c.ExpertFF
}
