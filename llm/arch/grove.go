package arch

import (
	"cmp"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"grovemoe": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: groveKeys, arrange: groveLayer,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, ByLogits: true, Module: "mlp.gate"}, reads: readsWidth},
		},
	})
}

var groveKeys = []key{
	optional("expert_chunk_feed_forward_length", func(c *Config) *int { return &c.ChunkFF }, always(0)),
	{
		name: "experts_per_group",
		read: func(m *metadata, name string, c *Config) {
			if n := m.size(name, 1, true); n != 1 {
				m.fault("%s.%s is %d: experts that share a small expert are unsupported", m.arch, name, n)
			}
		},
		write: func(*Config) any { return uint32(1) },
	},
	derived("expert_group_scale", func(c *Config) *float32 { return &c.ChunkScale }, constant(0.05)),
}

// groveLayer has small experts behind the others.
func groveLayer(c *Config, _ int, attention, network Residual) Layer {
	if e, ok := network.Part.(Experts); ok {
		network.Part = GroveExperts{e, cmp.Or(c.ChunkFF, c.HeadSize), c.ChunkScale}
	}
	return Layer{attention, network}
}

// GroveExperts are experts followed by small experts, whose input is the result of the others (arXiv
// 2508.07785).
type GroveExperts struct {
	Experts
	SmallWidth int
	SmallScale float32 // factor of the small experts' result
}

// Forward adds the small experts to the others.
func (g GroveExperts) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	ids, weights := g.Router.choose(p, t, g.Router.logits(p, t, x))
	y := g.compute(p, t, x, ids, weights)
	small := g.Experts
	small.Kinds, small.Width, small.Scales = "_chexps", g.SmallWidth, false
	return t.Add(y, t.Scale(small.compute(p, t, y, ids, weights), g.SmallScale))
}
