package arch

import (
	"cmp"

	"github.com/goggml/ggml/internal/nn"
)

// A norming describes the norms of a model.
type norming struct {
	layer bool     // LayerNorm; RMSNorm otherwise
	byEps bool     // LayerNorm if there is no eps of RMSNorm
	bias  Presence // of the residual stream's norms
	bare  bool     // they have no weights
}

// Norm returns the norm of x [m, …] over ne0, with weights [m]; x itself if the kind is "".
func (p Place) Norm(t *nn.Tape, kind Kind, x *nn.Value) *nn.Value { return p.norm(t, kind, x, 0) }

// norm is Norm with another eps, if it is not 0.
func (p Place) norm(t *nn.Tape, kind Kind, x *nn.Value, eps float32) *nn.Value {
	if kind == "" {
		return x
	}
	n := p.normNamed(kind, x.T.Dim(0))
	n.Eps = cmp.Or(eps, n.Eps)
	return t.Norm(x, n)
}

// normNamed returns a norm of the residual stream over so many elements, with its weights.
func (p Place) normNamed(kind Kind, size int64) nn.Norm {
	n, s := p.normOf(), p.spec().norm
	n.Groups = p.config.NormGroups
	if !s.bare {
		n.Weight = p.Weight(Weight{Kind: kind, Shape: []int64{size}, Role: Norm})
	}
	n.Bias = p.bias(kind, size, s.bias)
	return n
}

// normOf returns the model's norm, without weights.
func (p Place) normOf() nn.Norm {
	if s := p.spec().norm; s.layer || s.byEps && p.config.RMSEps == 0 {
		return nn.Norm{Layer: true, Eps: p.config.LayerNormEps}
	}
	return nn.Norm{Eps: p.config.RMSEps}
}
