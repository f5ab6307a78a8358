package arch

import (
	"fmt"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
)

// FeedForward is a feed-forward network, usually a gated one (GLU, arXiv 2002.05202):
// W_down · (act(W_gate·x) ⊙ W_up·x).
type FeedForward struct {
	Width       int // rows of W_up
	Act         ggml.GLU
	Ungated     Activation // the activation of a network without a gate, W_down · act(W_up·x); Gated is the formula above
	ActScales   bool       // a file may have divisors of the result of Ungated
	FusedGateUp bool       // W_gate and W_up are one matrix ffn_up [n_embd, 2·Width]
	Biases      Presence
	// Scales are the factors of products with their biases. Stock llama.cpp ignores factors in
	// models that define none.
	Scales    bool
	DownScale bool             // only ffn_down has a factor
	SubNorm   bool             // the input of W_down is normalised
	XIELU     ggml.XIELUParams // parameters of the activation [XIELU]
	SiTU      SiTU             // replaces Act; the zero value does not
	Plain     bool             // stock llama.cpp multiplies its matrices without adapters
	Switch    Switch           // adapters in the file
	Limit     float32          // of the gated value and of its gate; 0: none
	OAI       bool             // with a limit: the activation is gpt-oss's
	Clamp     float32          // bound of SiLU(W_gate·x) from above, and of W_up·x in both directions; 0 is none
	Sparse    float32          // gates that far above the mean, in standard deviations, count, see [nn.Tape.Sparse]; 0: all do
	Suffix    string           // ends the kinds of its weights
	Module    string           // its module in transformers; "" is the usual one
}

// An Activation is the activation of a network without a gate.
type Activation int

// The activations.
const (
	Gated Activation = iota
	GELU
	SquaredReLU
	XIELU // with parameters of the layer, see [FeedForward]
	ReLU
)

// String is the name of an activation.
func (a Activation) String() string {
	if int(a) < 0 || int(a) >= len(activations) {
		return fmt.Sprintf("activation %d", int(a))
	}
	return activations[a]
}

var activations = []string{Gated: "gated", GELU: "gelu", SquaredReLU: "squared relu", XIELU: "xielu", ReLU: "relu"}

// Forward computes the network.
func (f FeedForward) Forward(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	y, embd := f.activated(p, t, x), int64(p.config.Embd)
	if f.SubNorm {
		y = p.Norm(t, "ffn_sub_norm", y)
	}
	return f.Switch.add(p, t, "ffn_down", y, t.Linear(y, f.matrix(p, "ffn_down", int64(f.Width), embd, true, f.rows(p, "ffn_down", embd)))[0])
}

// Check demands a width.
func (f FeedForward) Check(c Config) (faults []string) {
	if f.Width <= 0 {
		faults = append(faults, fmt.Sprintf("%s is %d", c.key("feed_forward_length"), f.Width))
	}
	return faults
}

// activated returns the input of the last matrix.
func (f FeedForward) activated(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	embd, width := int64(p.config.Embd), int64(f.Width)
	up := f.rows(p, "ffn_up", width)
	if f.Ungated != Gated {
		return f.scaled(p, t, f.activate(t, t.Linear(x, f.matrix(p, "ffn_up", embd, width, false, up))[0]))
	}
	gate := f.rows(p, "ffn_gate", width)
	var parts []*nn.Value
	if f.FusedGateUp {
		both := f.matrix(p, "ffn_up", embd, 2*width, false, gate, up)
		parts = t.Split(t.Linear(x, both)[0], width, width)
	} else {
		parts = t.Linear(x, f.matrix(p, "ffn_gate", embd, width, false, gate), f.matrix(p, "ffn_up", embd, width, false, up))
	}
	return f.gated(t, f.Switch.add(p, t, "ffn_gate", x, parts[0]), f.Switch.add(p, t, "ffn_up", x, parts[1]))
}

// gated returns act(gate) ⊙ up. With a limit it is x·sigmoid(x)·y, with x = min(gate, limit) and |y| ≤ limit; for gpt-oss it
// is x·sigmoid(1.702·x)·(y + 1).
func (f FeedForward) gated(t *nn.Tape, gate, up *nn.Value) *nn.Value {
	if f.SiTU.Gate != 0 {
		return f.SiTU.apply(t, gate, up)
	}
	if f.Limit != 0 {
		x, y, slope := t.ClampAbove(gate, f.Limit), t.Clamp(up, f.Limit), float32(1)
		if f.OAI {
			y, slope = t.AddNumber(y, 1), 1.702
		}
		return t.Mul(t.Mul(x, t.Sigmoid(t.Scale(x, slope))), y)
	}
	if f.Act == ggml.ReGLU {
		return t.Mul(t.ReLU(gate), up)
	}
	if f.Clamp != 0 {
		return t.Mul(t.ClampAbove(t.SiLU(gate), f.Clamp), t.Clamp(up, f.Clamp))
	}
	if f.Sparse != 0 {
		gate = t.Sparse(gate, f.Sparse)
	}
	return t.GLU(f.Act, gate, up)
}

// scaled divides x by the optional scales of the file.
func (f FeedForward) scaled(p Place, t *nn.Tape, x *nn.Value) *nn.Value {
	if !f.ActScales {
		return x
	}
	s := p.Weight(Weight{Kind: "ffn.act", Name: p.prefix + "ffn.act.scales", Shape: []int64{int64(f.Width)}, Role: Scale, Optional: true})
	if s == nil {
		return x
	}
	return t.Op(t.C.Div(x.T, s), func(dy *ggml.Tensor) []*ggml.Tensor { return []*ggml.Tensor{t.C.Div(dy, s)} }, x)
}

func (f FeedForward) matrix(p Place, kind Kind, in, out int64, residual bool, rows ...Rows) nn.Matrix {
	scales := f.Scales || f.DownScale && kind == "ffn_down"
	inner := f.SubNorm && kind == "ffn_down" // stock llama.cpp multiplies it apart, and adapters have no part in the scale
	return p.Matrix(kind+Kind(f.Suffix), in, out, MatrixOptions{Bias: f.Biases, OutScale: scales && !inner, NoScale: !scales, Residual: residual, NoLoRA: f.Plain, Rows: rows})
}

// rows describes the rows of a matrix, with the name that transformers has for it.
func (f FeedForward) rows(p Place, kind Kind, count int64) Rows {
	r := p.rows(kind, count, 0)
	r.Name += f.Suffix
	if f.Module != "" {
		r.Module = p.modules + f.Module + "." + Module{Path: r.Module}.Name()
	}
	return r
}

// activate applies the activation of a network without a gate.
func (f FeedForward) activate(t *nn.Tape, x *nn.Value) *nn.Value {
	switch f.Ungated {
	case SquaredReLU:
		return t.SquaredReLU(x)
	case XIELU:
		return t.XIELU(x, f.XIELU)
	case ReLU:
		return t.ReLU(x)
	}
	return t.GELU(x)
}

// withNetwork arranges layers whose feed-forward network a function changes.
func withNetwork(change func(c *Config, i int, f *FeedForward)) func(c *Config, i int, attention, network Residual) Layer {
	return func(c *Config, i int, attention, network Residual) Layer {
		f := network.Part.(FeedForward)
		change(c, i, &f)
		network.Part = f
		return Layer{attention, network}
	}
}

// gateInFile gives a network a gate if the file has one, as a matrix of its own or in ffn_up.
func gateInFile(c *Config, _ int, f *FeedForward) {
	if c.has("ffn_gate") || f.FusedGateUp {
		f.Ungated = Gated
	}
}
