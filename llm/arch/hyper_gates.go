package arch

import (
	"github.com/goggml/ggml/internal/nn"
)

// StreamGates are sigmoids of a matrix times the normalised streams, with a scale and a bias: weights σ(·) + Eps, multiples
// Magnitude·σ(·) + Eps.
type StreamGates struct{ Magnitude, Eps float32 }

func (g StreamGates) mix(p Place, t *nn.Tape, kind Kind, x *nn.Value, streams int64, adds bool) (m streamMix) {
	kinds := int64(1) // of gates
	if adds {
		kinds = 2
	}
	matrix := p.Matrix(kind+"_fn", x.T.Dim(0), kinds*streams, latentMatrix)
	z := t.Heads(t.Linear(t.Norm(x, p.normOf()), matrix)[0], kinds)
	z = t.Flat(t.MulHeads(z, p.Weight(Weight{Kind: kind + "_scale", Shape: []int64{kinds}, Role: Gate})))
	z = t.Sigmoid(t.AddWeight(z, p.Weight(Weight{Kind: kind + "_base", Name: p.prefix + string(kind) + "_base.weight", Shape: []int64{kinds * streams}, Role: Bias})))
	weights := z
	if adds {
		parts := t.Split(z, streams, streams)
		weights, m.multiples = t.Contiguous(parts[0]), t.AddNumber(t.Scale(t.Contiguous(parts[1]), g.Magnitude), g.Eps)
	}
	m.sum = t.Weigh(t.Heads(x, streams), t.AddNumber(weights, g.Eps))
	return m
}
