package arch

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// Experts are feed-forward networks: each token goes through the few that a router chooses (arXiv
// 1701.06538), and through a shared one, if there is one.
type Experts struct {
	FeedForward // of each expert: Width, Act, FusedGateUp, Biases
	Router      Router
	// Shared is the network that all tokens use; width 0: none. With SharedGate a sigmoid of the
	// input scales its result.
	Shared     FeedForward
	SharedGate bool
	SumScale   float32 // of the sum of both; 0 and 1: none
	Kinds      string  // suffix of the kinds of the experts' weights; "": "_exps"
}

// A Router chooses experts by logits W·x.
type Router struct {
	Experts, Used int
	Gating        Gating
	// ChoiceBias: an optional bias is added to choose experts, and not to weigh them.
	ChoiceBias Presence
	// ByLogits chooses by logits, whose order is the order of the probabilities.
	ByLogits   bool
	Normalized bool    // the weights of the chosen experts sum to one
	Scale      float32 // of the weights; 0 and 1: none
	// Groups is the number of groups of experts; experts are chosen from the GroupsUsed groups
	// whose two best scores have the largest sum. Up to 1 means no groups.
	Groups, GroupsUsed int
	// BeforeExperts multiplies the experts' inputs, not their results, by the weights.
	BeforeExperts bool
	Bias          Presence // of the logits
	Module        string
	// Plain: stock llama.cpp adapts the experts alone, so that they need not be named.
	Plain bool
	// ByToken: a table has the experts of each token, and the scores only weigh them.
	ByToken bool
	Kind    Kind // kind of the matrix and of the choice's bias; "": as in feed-forward networks
}

// A Gating turns a router's logits into weights. The numbers are the ones in files.
type Gating = nn.Gating

// The gatings.
const (
	GatingSoftMax       = nn.GatingSoftMax // over all experts
	GatingSigmoid       = nn.GatingSigmoid
	GatingSoftMaxChosen = nn.GatingSoftMaxChosen // over the chosen ones
	GatingSqrtSoftplus  = nn.GatingSqrtSoftplus  // √log(1 + eˣ)
)

// Forward returns the weighted sum of each token's chosen experts, plus the shared network.
func (e Experts) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	ids, weights := e.Router.choose(p, t, e.Router.logits(p, t, x))
	y := e.compute(p, t, x, ids, weights)
	if e.Shared.Width == 0 {
		return y
	}
	return t.Scale(t.Add(y, e.shared(p, t, x)), e.SumScale)
}

// compute returns the weighted sum of the results of each token's experts.
func (e Experts) compute(p Place, t *nn.Tape, x *nn.Value, ids *ggml.Tensor, weights *nn.Value) *nn.Value {
	t = t.On(p.block, e.kind("ffn_down"))
	embd, width := x.T.Dim(0), int64(e.Width)
	in := t.Columns(x)
	if e.Router.BeforeExperts {
		in = t.WeighInputs(x, weights)
	}
	var parts []*nn.Value
	kinds := []Kind{"ffn_gate", "ffn_up"}
	if e.Ungated != Gated {
		kinds = kinds[1:]
	}
	if e.FusedGateUp {
		parts = t.Split(t.Flatten(t.LinearID(in, ids, e.matrix(p, "ffn_gate_up", embd, 2*width, false))), width, width)
	} else {
		for _, kind := range kinds {
			parts = append(parts, t.Flatten(t.LinearID(in, ids, e.matrix(p, kind, embd, width, false))))
		}
	}
	gated := t.Unflatten(e.activate(t, parts...), ids.Dim(0))
	made := t.LinearID(gated, ids, e.matrix(p, "ffn_down", width, embd, true))
	if e.Router.BeforeExperts {
		return t.SumExperts(made)
	}
	return t.Weigh(made, weights)
}

// activate returns the experts' activation of the products of the gate's matrix, if there is one, and of W_up.
func (e Experts) activate(t *nn.Tape, parts ...*nn.Value) *nn.Value {
	if e.Ungated != Gated {
		return e.FeedForward.activate(t, parts[0])
	}
	return e.gated(t, parts[0], parts[1])
}

// kind is the kind of the matrix.
func (r Router) kind() Kind { return cmp.Or(r.Kind, "ffn_gate_inp") }

// logits returns the logits of all experts [experts, n].
func (r Router) logits(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	kind, experts := r.kind(), int64(r.Experts)
	m := p.Matrix(kind, int64(p.config.Embd), experts, MatrixOptions{
		Bias: r.Bias, NoScale: true, Named: true, NoLoRA: r.Plain, KeepType: r.Kind == "", Rows: []Rows{{Name: p.prefix + string(kind), Module: p.modules + r.Module, Count: experts, Parameter: true}},
	})
	m.Exact = true
	return t.Linear(x, m)[0]
}

// choose returns the experts of each token, I32 [used, n], and their weights [used, n].
func (r Router) choose(p Place, t *nn.Tape, logits *nn.Value) (ids *ggml.Tensor, weights *nn.Value) {
	routed := nn.Router.Build(t, nn.RouterOperands{Logits: logits, RouterOptions: nn.RouterOptions{
		Used: r.Used, Gating: r.Gating, ChoiceBias: r.choiceBias(p), ByLogits: r.ByLogits,
		Normalized: r.Normalized, Scale: r.Scale, Groups: r.Groups, GroupsUsed: r.GroupsUsed, Chosen: r.chosenByToken(p, t, logits.T.Dim(1)),
	}})
	return routed.IDs, routed.Weights
}

// chosenByToken returns the experts that the table has for n tokens, I32 [used, n]; nil if scores choose them. The table is looked
// up with the inputs, because devices cannot check indices that a graph computes.
func (r Router) chosenByToken(p Place, t *nn.Tape, n int64) *ggml.Tensor {
	if !r.ByToken {
		return nil
	}
	table := p.Weight(Weight{Kind: "ffn_gate_tid2eid", Shape: []int64{int64(r.Used), int64(p.config.Vocab)}, Role: ExpertTable, Init: r.drawTable})
	var rows []int32
	all := nn.Declare(t.Inputs, fmt.Sprintf("experts of tokens in block %d", p.block), ggml.I32, []int64{int64(r.Used), p.NumTokens}, func(f *nn.Feed, ids []int32) {
		if rows == nil {
			rows, _ = ggml.Read[int32](table)
		}
		for i, token := range f.Tokens {
			if at := int(token) * r.Used; at+r.Used <= len(rows) {
				copy(ids[i*r.Used:], rows[at:][:r.Used])
			} else { // the table's device has failed, and the computation reports the index
				ids[i*r.Used] = -1
			}
		}
	})
	return t.Last(nn.Input(all), n).T // the last layer may compute only the last tokens
}

// drawTable chooses different experts for each token.
func (r Router) drawTable(rng *rand.Rand, values []float32) {
	for row := range slices.Chunk(values, r.Used) {
		for i, expert := range rng.Perm(r.Experts)[:len(row)] {
			row[i] = float32(expert)
		}
	}
}

// choiceBias returns the bias for the choice, or nil.
func (r Router) choiceBias(p Place) *ggml.Tensor {
	if r.ChoiceBias == Never {
		return nil
	}
	w := Weight{Kind: cmp.Or(r.Kind, "exp_probs_b"), Shape: []int64{int64(r.Experts)}, Role: ChoiceBias, Optional: r.ChoiceBias == Maybe}
	w.Name = p.prefix + string(w.Kind)
	if !slices.Contains(p.spec().unsuffixed, w.Kind) {
		w.Name += ".bias"
	}
	return p.Weight(w)
}

// shared computes the network that all tokens go through.
func (e Experts) shared(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y := e.Shared.Forward(p, t, x)
	if !e.SharedGate {
		return y
	}
	gate := p.Weight(Weight{Kind: "ffn_gate_inp_shexp", Shape: []int64{int64(p.config.Embd)}, Role: Gate})
	return t.Mul(y, t.Sigmoid(t.Dot(x, gate)))
}

// kind returns the kind of the experts' matrices.
func (e Experts) kind(of Kind) Kind { return of + Kind(cmp.Or(e.Kinds, "_exps")) }

// matrix declares the matrices [in, out, experts] of all experts.
func (e Experts) matrix(p Place, kind Kind, in, out int64, residual bool) nn.Matrix {
	return e.Router.matrix(p, e.kind(kind), in, out, MatrixOptions{Bias: e.Biases, NoScale: !e.Scales, Residual: residual})
}

// matrix declares the matrices [in, out, experts] that it chooses from.
func (r Router) matrix(p Place, kind Kind, in, out int64, o MatrixOptions) nn.Matrix {
	experts := int64(r.Experts)
	w := Weight{Kind: kind, Shape: []int64{in, out, experts}, Role: ExpertMatrices, Residual: o.Residual, KeepType: o.KeepType, Named: !o.NoLoRA && !r.Plain, NoLoRA: o.NoLoRA, Stacked: o.Stacked, Used: r.Used}
	w.Name = p.name(w)
	m := p.matrixOf(w)
	p.Weight(Weight{Kind: kind, Shape: []int64{experts}, Role: Unused, Optional: true, Name: p.prefix + string(kind) + ".input_scale"})
	scale := Weight{Kind: kind, Shape: []int64{experts}, Role: Scale, Optional: true, Name: p.prefix + string(kind) + ".scale"}
	if o.NoScale {
		scale.Role = Unused
	}
	if x := p.Weight(scale); !o.NoScale {
		m.Scale = x
	}
	if o.Bias != Never {
		m.Bias = p.Weight(Weight{Kind: kind, Shape: []int64{out, experts}, Role: Bias, Optional: o.Bias == Maybe})
	}
	return m
}
