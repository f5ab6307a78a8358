package arch

import (
	"cmp"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// Experts are feed-forward networks of which each token goes through the few that a router
// chooses (arXiv 1701.06538), beside one that all go through, if there is one.
type Experts struct {
	FeedForward // of each expert: Width, Act, FusedGateUp, Biases
	Number      int
	Used        int
	Router      Router
	// Shared is the network that all tokens go through, of width 0 for none; SharedGate says
	// that a sigmoid of the input scales what it makes.
	Shared     FeedForward
	SharedGate bool
}

// A Router chooses experts by logits W·x.
type Router struct {
	Gating Gating
	// ChoiceBias says that a bias may be added for the choice, and not for the weights.
	ChoiceBias bool
	// ByLogits chooses by logits, which order experts as their probabilities do.
	ByLogits   bool
	Normalized bool    // the weights of the chosen experts add up to one
	Scale      float32 // of the weights; 0 and 1 are none
	// BeforeExperts weighs what experts see instead of what they make.
	BeforeExperts bool
	Bias          bool // of the logits; there may be one
	Module        string
}

// A Gating is what a router makes of logits. The numbers are those of files.
type Gating int

// The gatings.
const (
	GatingSoftMax       Gating = 1 // over all experts
	GatingSigmoid       Gating = 2
	GatingSoftMaxChosen Gating = 3 // over the chosen ones
)

// Forward computes the chosen experts of each token, and what all share.
func (e Experts) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	ids, weights := e.route(p, t, x)
	embd, width := int64(p.config.Embd), int64(e.Width)
	in := t.Columns(x)
	if e.Router.BeforeExperts {
		in = t.WeighInputs(x, weights)
	}
	var parts []*nn.Value
	if e.FusedGateUp {
		parts = t.Split(t.Flatten(t.LinearID(in, ids, e.matrix(p, "ffn_gate_up_exps", embd, 2*width, false))), width, width)
	} else {
		for _, kind := range []string{"ffn_gate_exps", "ffn_up_exps"} {
			parts = append(parts, t.Flatten(t.LinearID(in, ids, e.matrix(p, kind, embd, width, false))))
		}
	}
	gated := t.Unflatten(t.GLU(e.Act, parts[0], parts[1]), int64(e.Used))
	made := t.LinearID(gated, ids, e.matrix(p, "ffn_down_exps", width, embd, true))
	y := t.Weigh(made, weights)
	if e.Shared.Width == 0 {
		return y
	}
	return t.Add(y, e.shared(p, t, x))
}

// route gives the experts of each token, I32 [used, n], and their weights [used, n].
func (e Experts) route(p Place, t *nn.Tape, x *nn.Value) (ids *ggml.Tensor, weights *nn.Value) {
	r := e.Router
	m := p.Matrix("ffn_gate_inp", int64(p.config.Embd), int64(e.Number), MatrixOptions{
		Bias: r.Bias, NoScale: true, Rows: []Rows{{Name: p.prefix + "ffn_gate_inp", Module: p.modules + r.Module, Count: int64(e.Number)}},
	})
	m.Exact = true
	logits := t.Linear(x, m)[0]
	scores := logits
	switch r.Gating {
	case GatingSoftMax:
		scores = t.SoftMax(logits)
	case GatingSigmoid:
		scores = t.Sigmoid(logits)
	}
	var bias *ggml.Tensor
	if r.ChoiceBias {
		bias = p.weight(Weight{Name: p.prefix + "exp_probs_b.bias", Kind: "exp_probs_b", Shape: []int64{int64(e.Number)}, Role: ChoiceBias, Optional: true})
	}
	ids = t.Once(func() *ggml.Tensor {
		by := scores.T
		if r.ByLogits {
			by = logits.T
		}
		if bias != nil {
			by = t.C.Add(by, bias)
		}
		return t.C.ArgSortTopK(by, e.Used)
	})
	weights = t.Chosen(scores, ids)
	if r.Gating == GatingSoftMaxChosen {
		weights = t.SoftMax(weights)
	}
	if r.Normalized {
		weights = t.Normalized(weights)
	}
	return ids, t.Scale(weights, r.Scale)
}

// shared computes the network that all tokens go through.
func (e Experts) shared(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := e.Shared.Forward(p, t, x)
	if !e.SharedGate {
		return y
	}
	gate := p.weight(Weight{Kind: "ffn_gate_inp_shexp", Shape: []int64{int64(p.config.Embd)}, Role: Gate})
	return t.Mul(y, t.Sigmoid(t.Dot(x, gate)))
}

// matrix asks for those [in, out, experts] of all experts.
func (e Experts) matrix(p Place, kind string, in, out int64, residual bool) nn.Matrix {
	w := Weight{Kind: kind, Shape: []int64{in, out, int64(e.Number)}, Role: ExpertMatrices, Residual: residual}
	w.Name = p.name(w)
	m := nn.Matrix{Name: w.Name, W: p.weight(w)}
	p.weight(Weight{Kind: kind, Shape: []int64{int64(e.Number)}, Role: Unused, Optional: true, Name: p.prefix + kind + ".input_scale"})
	scale := Weight{Kind: kind, Shape: []int64{int64(e.Number)}, Role: Unused, Optional: true, Name: p.prefix + kind + ".scale"}
	if e.Scales {
		scale.Role = OutScale
	}
	if x := p.weight(scale); e.Scales {
		m.Scale = x
	}
	if e.Biases {
		m.Bias = p.weight(Weight{Kind: kind, Shape: []int64{out, int64(e.Number)}, Role: Bias, Optional: true})
	}
	return m
}

// mixture is what a row of the table says of experts, where keys do not.
type mixture struct {
	router     Router // with what is so where no key says
	reads      routerKeys
	sharedGate bool
	biases     bool // of experts, and of the router
	// scales are factors of the experts' products, and sharedScales of those of the shared
	// network. Stock llama.cpp ignores those of models that have none.
	scales, sharedScales bool
	module               string // of the shared network in transformers
}

// experts are those of layer i; ok is false where it has one feed-forward network.
func (s spec) expertsOf(c Config, i int) (e Experts, ok bool) {
	isDense := i < c.DenseLayers || c.ExpertStep > 1 && (i+1)%c.ExpertStep != 0
	if s.mixture == nil || c.Experts == 0 || isDense {
		return e, false
	}
	e = Experts{
		FeedForward: FeedForward{Width: cmp.Or(c.ExpertFF, c.FF), Act: s.act, FusedGateUp: c.FusedExperts, Biases: s.mixture.biases, Scales: s.mixture.scales},
		Number:      c.Experts, Used: c.ExpertsUsed, Router: s.mixture.router, SharedGate: s.mixture.sharedGate,
		Shared: FeedForward{Width: cmp.Or(c.SharedFF, c.SharedExperts*c.ExpertFF), Act: s.act, Suffix: "_shexp", Module: s.mixture.module, Scales: s.mixture.sharedScales},
	}
	e.Router.Gating, e.Router.Normalized, e.Router.Scale = c.Gating, c.NormalizedExperts, c.ExpertScale
	return e, true
}

// routerKeys are those of a router that files of an architecture have. As stock llama.cpp does, a
// model ignores the others.
type routerKeys int

const (
	readsGating routerKeys = 1 << iota
	readsNormalized
	readsScale
)

// keys are those of mixtures. A file without experts says nothing of them.
func (x *mixture) keys() []key {
	if x == nil {
		return nil
	}
	none := always(0)
	list := []key{
		optional("expert_count", func(c *Config) *int { return &c.Experts }, none),
		optional("expert_used_count", func(c *Config) *int { return &c.ExpertsUsed }, none),
		optional("expert_feed_forward_length", func(c *Config) *int { return &c.ExpertFF }, none),
		optional("expert_shared_count", func(c *Config) *int { return &c.SharedExperts }, none),
		optional("expert_shared_feed_forward_length", func(c *Config) *int { return &c.SharedFF }, none),
		optional("leading_dense_block_count", func(c *Config) *int { return &c.DenseLayers }, none),
		optional("interleave_moe_layer_step", func(c *Config) *int { return &c.ExpertStep }, none),
	}
	if x.reads&readsGating == 0 {
		list = append(list, fixed(func(c *Config) { c.Gating = x.router.Gating }))
	} else {
		list = append(list, key{
			name: "expert_gating_func",
			read: func(m *metadata, name string, c *Config) {
				c.Gating = cmp.Or(Gating(m.size(name, 0, true)), x.router.Gating)
			},
			write: func(c *Config) any { return uint32(c.Gating) },
		})
	}
	if x.reads&readsNormalized == 0 {
		list = append(list, fixed(func(c *Config) { c.NormalizedExperts = x.router.Normalized }))
	} else {
		list = append(list, key{
			name: "expert_weights_norm",
			read: func(m *metadata, name string, c *Config) {
				c.NormalizedExperts = value(m, m.arch+"."+name, x.router.Normalized, true)
			},
			write: func(c *Config) any { return c.NormalizedExperts },
		})
	}
	if x.reads&readsScale != 0 {
		list = append(list, factor("expert_weights_scale", func(c *Config) *float32 { return &c.ExpertScale }, 0, false))
	}
	for i, k := range list[1:] {
		list[i+1].read = func(m *metadata, name string, c *Config) {
			if c.Experts > 0 {
				k.read(m, name, c)
			}
		}
		list[i+1].write = func(c *Config) any {
			if c.Experts == 0 {
				return nil
			}
			return k.write(c)
		}
	}
	return list
}

// fixed is what each model of a kind has, and no key says.
func fixed(set func(c *Config)) key {
	return key{read: func(_ *metadata, _ string, c *Config) { set(c) }, write: func(*Config) any { return nil }}
}
