package arch

import (
	"cmp"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// FeedForward is a gated feed-forward network (arXiv 2002.05202):
// W_down · (act(W_gate·x) ⊙ W_up·x).
type FeedForward struct {
	Width        int // of what is gated
	Act          ggml.GLU
	FusedGateUp  bool // one matrix ffn_up [n_embd, 2·Width] holds the gate too
	FusedModules bool // in transformers one does
	Biases       bool // there may be some
	// Scales are the factors of products with their biases. Stock llama.cpp ignores those of
	// models that have none.
	Scales bool
	Suffix string // of the kinds of its weights
	Module string // in transformers; "" is "mlp"
}

// Forward computes the network.
func (f FeedForward) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, width := int64(p.config.Embd), int64(f.Width)
	gate, up := f.rows(p, "ffn_gate", "gate_proj", width), f.rows(p, "ffn_up", "up_proj", width)
	var parts []*nn.Value
	if f.FusedGateUp {
		both := f.matrix(p, "ffn_up", embd, 2*width, false, gate, up)
		parts = t.Split(t.Linear(x, both)[0], width, width)
	} else {
		parts = t.Linear(x, f.matrix(p, "ffn_gate", embd, width, false, gate), f.matrix(p, "ffn_up", embd, width, false, up))
	}
	down := f.matrix(p, "ffn_down", width, embd, true, f.rows(p, "ffn_down", "down_proj", embd))
	return t.Linear(t.GLU(f.Act, parts[0], parts[1]), down)[0]
}

func (f FeedForward) matrix(p Place, kind string, in, out int64, residual bool, rows ...Rows) nn.Matrix {
	return p.Matrix(kind+f.Suffix, in, out, MatrixOptions{Bias: f.Biases, OutScale: f.Scales, NoScale: !f.Scales, Residual: residual, Rows: rows})
}

// rows are those of a matrix, with the name that transformers has for it.
func (f FeedForward) rows(p Place, kind, module string, count int64) Rows {
	if f.FusedModules && kind != "ffn_down" {
		module = "gate_up_proj"
	}
	return Rows{Name: p.prefix + kind + f.Suffix, Module: p.modules + cmp.Or(f.Module, "mlp") + "." + module, Count: count}
}
