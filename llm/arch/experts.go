package arch

import (
	"math"

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
	// Groups are those into which experts are divided, of which the GroupsUsed are chosen from that
	// have the best pairs; up to 1 is none.
	Groups, GroupsUsed int
	// BeforeExperts weighs what experts see instead of what they make.
	BeforeExperts bool
	Bias          Presence // of the logits
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
		Bias: r.Bias, NoScale: true, Named: true, Rows: []Rows{{Name: p.prefix + "ffn_gate_inp", Module: p.modules + r.Module, Count: int64(e.Number)}},
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
		return t.C.ArgSortTopK(e.Router.inGroups(t.C, by), e.Used)
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

// inGroups are scores [experts, n] of which those outside of the chosen groups are as low as can be.
func (r Router) inGroups(c *ggml.Context, scores *ggml.Tensor) *ggml.Tensor {
	if r.Groups <= 1 {
		return scores
	}
	groups, n := int64(r.Groups), scores.Dim(1)
	size := scores.Dim(0) / groups
	scores = c.Reshape(scores, size, groups, n)
	pairs := c.GetRows(c.Reshape(scores, 1, size, groups, n), c.ArgSortTopK(scores, 2))
	sums := c.Reshape(c.SumRows(c.Reshape(pairs, 2, groups, n)), groups, n)
	chosen := c.ArgSortTopK(sums, r.GroupsUsed)
	lowest := c.Fill(scores, float32(math.Inf(-1)))
	return c.Reshape(c.SetRows(lowest, c.GetRows(scores, chosen), chosen), size*groups, n)
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
	w := Weight{Kind: kind, Shape: []int64{in, out, int64(e.Number)}, Role: ExpertMatrices, Residual: residual, Named: true}
	w.Name = p.name(w)
	m := nn.Matrix{Name: w.Name, W: p.weight(w)}
	p.weight(Weight{Kind: kind, Shape: []int64{int64(e.Number)}, Role: Unused, Optional: true, Name: p.prefix + kind + ".input_scale"})
	scale := Weight{Kind: kind, Shape: []int64{int64(e.Number)}, Role: Unused, Optional: true, Name: p.prefix + kind + ".scale"}
	if e.Scales {
		scale.Role = Scale
	}
	if x := p.weight(scale); e.Scales {
		m.Scale = x
	}
	if e.Biases != Never {
		m.Bias = p.weight(Weight{Kind: kind, Shape: []int64{out, int64(e.Number)}, Role: Bias, Optional: e.Biases == Maybe})
	}
	return m
}
