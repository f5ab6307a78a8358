package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"maion-coder": {
			rope: ggml.RoPENeoX, norms: normBefore | normAfter, act: ggml.SwiGLU, qkNorm: PerHead, untied: true, keys: append(windowKeys(1), latentSize), layer: maionLayer, arrange: latentExperts,
			mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "mlp.gate"}, reads: readsWidths | readsStep},
		},
	})
}

var latentSize = count("moe_latent_size", func(c *Config) *int { return &c.ExpertLatent })

// maionLayer has RoPE in local layers alone.
func maionLayer(c *Config, i int, a *Attention) {
	if a.NoRoPE = !local(c, i, a); !a.NoRoPE {
		c.stretchLocalRoPE(a)
	}
}

// latentExperts reduces the width of the experts' input.
func latentExperts(c *Config, _ int, attention, network Residual) Layer {
	if e, ok := network.Part.(Experts); ok && c.ExpertLatent > 0 {
		network.Part = LatentExperts{e, c.ExpertLatent}
	}
	return Layer{attention, network}
}

// LatentExperts are experts between two matrices for all tokens. The router sees the input of the
// first matrix.
type LatentExperts struct {
	Experts
	Latent int // width of the experts' input
}

// Forward computes the chosen experts of each token.
func (l LatentExperts) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, latent := x.T.Dim(0), int64(l.Latent)
	ids, weights := l.Router.choose(p, t, l.Router.logits(p, t, x))
	in := t.Linear(x, p.Matrix("ffn_latent_down", embd, latent, MatrixOptions{NoScale: true, NoLoRA: true}))[0]
	y := l.compute(p, t, in, ids, weights)
	y = t.Linear(y, p.Matrix("ffn_latent_up", latent, embd, MatrixOptions{NoScale: true, NoLoRA: true, Residual: true}))[0]
	if l.Shared.Width == 0 {
		return y
	}
	return t.Add(y, l.shared(p, t, x))
}
