package arch

import (
	"math"

	"github.com/goggml/ggml/internal/nn"
)

// An OutputGate multiplies the heads' result by a gate, computed from the input of attention by a matrix
// (arXiv 2505.06708).
type OutputGate int

// The gates.
const (
	NoGate        OutputGate = iota
	SigmoidGate              // of each element
	HeadGate                 // a sigmoid for each head
	Softplus2Gate            // log₂(1 + 2ˣ) of each element
	HeadSoftplus             // log(1 + eˣ) for each head
	QueryGate                // a sigmoid of each element; its rows follow the rows of each head's query in one matrix
)

// matrix returns the matrix of the gate.
func (g OutputGate) matrix(p Place, a Attention) nn.Matrix {
	out := int64(a.Heads * a.HeadSize)
	if g == HeadGate || g == HeadSoftplus {
		out = int64(a.Heads)
	}
	return p.Matrix("attn_gate", int64(p.config.Embd), out, MatrixOptions{NoScale: a.Gate != Softplus2Gate})
}

// apply multiplies the heads' result [size·heads, n] by the gate.
func (g OutputGate) apply(t *nn.Tape, y, gate *nn.Value, heads int) *nn.Value {
	switch g {
	case NoGate:
		return y
	case Softplus2Gate:
		return t.Mul(y, t.Scale(t.Softplus(t.Scale(t.Contiguous(gate), math.Ln2)), 1/math.Ln2))
	case HeadSoftplus:
		return t.Flat(t.Mul(t.Heads(y, int64(heads)), t.Heads(t.Softplus(gate), int64(heads))))
	case HeadGate:
		byHead := t.Mul(t.Heads(y, int64(heads)), t.Heads(t.Sigmoid(gate), int64(heads)))
		return t.Flat(byHead)
	}
	return t.Mul(y, t.Sigmoid(gate))
}
