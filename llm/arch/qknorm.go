package arch

import "github.com/goggml/ggml/internal/nn"

// QKNorm says whether queries and keys are normalised, and over what.
type QKNorm int

// The norms of queries and keys.
const (
	NoQKNorm   QKNorm = iota
	PerHead           // over each head, by the weights of one
	EachHead          // over each head, by weights of its own [size, heads]
	AllHeads          // over all elements
	HeadGroups        // over each head, by weights of all elements
	BareHeads         // over each head, without weights
	QueryGains        // over each head, with a factor for each of the queries
)

// isFlat reports whether the norm is of [size·heads, n]; otherwise it is of [size, heads, n].
func (n QKNorm) isFlat() bool { return n == AllHeads || n == HeadGroups }

// norm returns the norm of queries or keys. A file may lack the weights of a norm if stock
// llama.cpp allows that.
func (a Attention) norm(p Place, t *nn.Tape, kind Kind, x *nn.Value) *nn.Value {
	if a.QKNorm == NoQKNorm || x == nil {
		return x
	}
	s, n := p.spec(), p.normOf()
	if s.qkLayerEps != 0 {
		n = nn.Norm{Layer: true, Eps: s.qkLayerEps}
	}
	shape := []int64{x.T.Dim(0)}
	switch a.QKNorm {
	case EachHead:
		shape = append(shape, x.T.Dim(1))
	case QueryGains:
		if kind != "attn_q_norm" {
			return t.Norm(x, n)
		}
		shape = []int64{1, x.T.Dim(1)}
	case BareHeads:
		return t.Norm(x, n)
	case HeadGroups:
		n.Groups = int(shape[0]) / a.HeadSize
	}
	n.Weight = p.Weight(Weight{Kind: kind, Shape: shape, Role: Norm, Optional: s.qkNormThere == Maybe})
	n.Bias = p.biasOf(kind, shape, s.qkNormBias)
	if s.qkNormThere == Maybe && p.Source(p.prefix+"attn_q_norm.weight") == nil {
		return x // as in stock llama.cpp, whatever there is of keys
	}
	return t.Norm(x, n)
}
