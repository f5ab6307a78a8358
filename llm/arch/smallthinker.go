package arch

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

func init() {
	family(map[string]spec{
		"smallthinker": {
			rope: ggml.RoPENeoX, norms: normBefore, act: ggml.ReGLU, keys: append(windowKeys(4), localBase), complete: smallthinkerWindow, layer: smallthinkerLayer,
			arrange: earlyRouter, mixture: &mixture{router: Router{Gating: GatingSoftMax, Normalized: true, Module: "block_sparse_moe.primary_router"}, reads: readsWidth | readsGating},
		},
	})
}

// smallthinkerWindow sets the window, which all models with one share. The first of every so many
// layers sees all tokens.
func smallthinkerWindow(c *Config) {
	if c.Window == 0 {
		return
	}
	c.Window = 4096
	c.firstGlobal()
}

// smallthinkerLayer has local layers, and no RoPE in each fourth, from the first on, where some are
// local.
func smallthinkerLayer(c *Config, i int, a *Attention) {
	if local(c, i, a) {
		c.setLocalRoPE(a)
	}
	a.NoRoPE = c.Window > 0 && i%4 == 0 && c.Layers != 4
}

// earlyRouter chooses experts by what attention sees.
func earlyRouter(_ *Config, _ int, attention, experts Residual) Layer {
	return Layer{{Part: RoutedEarly{attention, experts}}}
}

// RoutedEarly is attention and experts, one after the other, whose router sees the input of both.
type RoutedEarly struct{ Attention, Experts Residual }

// Forward returns the sum of what both add to x.
func (r RoutedEarly) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	e := r.Experts.Part.(Experts)
	logits := e.Router.logits(p, t, x)
	y := r.Attention.branch(p.Part(0), t, x)
	_, seen := stream{lastOf(t, x, y), y}.normed(p, t, r.Experts.Before)
	ids, weights := e.Router.choose(p, t, lastOf(t, logits, y))
	return t.Add(y, e.compute(p.Part(1), t, seen, ids, weights))
}

// Residuals returns both.
func (r RoutedEarly) Residuals() []Residual { return []Residual{r.Attention, r.Experts} }
