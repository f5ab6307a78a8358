package gpucost

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/arch"
)

// A Kind is the purpose of a part of a step.
type Kind int

// The kinds.
const (
	Products  Kind = iota // with frozen matrices
	Weights               // conversion of frozen matrices to the type of the product
	Casts                 // conversion of the other operands
	Adapters              // LoRA
	Attention             // without the products around it
	Elementwise
	Loss
	Update
	NumKinds
)

func (k Kind) String() string {
	return [...]string{
		"products with frozen matrices", "dequantising and transposing these", "rounding what they multiply", "LoRA",
		"attention", "norms, RoPE, gates, residuals", "loss", "optimiser",
	}[k]
}

// A Shape contains the sizes that distinguish the parts of a model.
type Shape struct{ Vocab, Heads, KVHeads, Rank int64 }

// ShapeOf returns the shape of a model with adapters of the given rank.
func ShapeOf(c arch.Config, rank int) Shape {
	return Shape{Vocab: int64(c.Vocab), Heads: int64(c.Heads), KVHeads: int64(c.KVHeads), Rank: int64(rank)}
}

// kinds determines the purpose of the nodes of a graph.
type kinds struct {
	Shape
	of     map[ggml.TensorKey]Kind // of earlier nodes
	origin map[ggml.TensorKey]origin
}

// An origin is the kind of leaves from which a tensor is computed.
type origin int

const (
	constant origin = iota // constants, such as positions and masks
	frozen                 // only frozen matrices
	changing
)

// kindsOf returns the kinds of the nodes of a graph. A layout copy has the kind of its readers.
func kindsOf(s Shape, nodes []*ggml.Tensor) []Kind {
	k := &kinds{Shape: s, of: map[ggml.TensorKey]Kind{}, origin: map[ggml.TensorKey]origin{}}
	list := make([]Kind, len(nodes))
	for i, t := range nodes {
		list[i] = k.kind(t)
		k.of[t.Key()] = list[i]
	}
	readers := map[ggml.TensorKey][]Kind{}
	for i, t := range slices.Backward(nodes) {
		by := readers[t.Key()]
		if moves := t.Op() == "cont" || t.Op() == "cpy"; moves && (list[i] == Elementwise || list[i] == Casts) && len(by) > 0 && by[0] == Adapters && len(slices.Compact(by)) == 1 {
			list[i] = Adapters
		}
		for _, source := range t.Sources() {
			source = viewed(source)
			if !source.Is(t) {
				kind := list[i]
				if t.Op() == "concat" { // concatenated inputs of matrices and adapters
					kind = Products
				}
				readers[source.Key()] = append(readers[source.Key()], kind)
			}
		}
	}
	return list
}

// viewed returns the source of a view, or the tensor itself.
func viewed(t *ggml.Tensor) *ggml.Tensor {
	for isView(t) && len(t.Sources()) > 0 {
		t = t.Sources()[0]
	}
	return t
}

func (k *kinds) kind(t *ggml.Tensor) Kind {
	sources := t.Sources()
	any := func(is func(t *ggml.Tensor) bool) bool { return is(t) || slices.ContainsFunc(sources, is) }
	wasByHead := func(t *ggml.Tensor) bool { return k.isByHead(viewed(t)) }
	switch from := k.originOf(t); {
	case from == frozen:
		return Weights
	case from == constant:
		return Attention // its masks
	case isProduct(t) && (k.originOf(sources[0]) == frozen || k.originOf(sources[1]) == frozen):
		return Products
	case any(k.isLowRank), t.Op() == "add" && slices.ContainsFunc(sources, k.isOfAdapter):
		return Adapters
	case any(func(t *ggml.Tensor) bool { return t.Dim(0) == k.Vocab || t.Dim(1) == k.Vocab }):
		return Loss
	case any(k.isByHead), slices.ContainsFunc(sources, wasByHead), t.Op() == "concat" && k.of[viewed(sources[0]).Key()] == Attention:
		return Attention
	case t.Op() == "cpy" && t.Type() != ggml.F32:
		return Casts
	}
	return Elementwise
}

func isProduct(t *ggml.Tensor) bool { return t.Op() == "mul_mat" || t.Op() == "out_prod" }

func (k *kinds) isLowRank(t *ggml.Tensor) bool {
	return (t.Dim(0) == k.Rank || t.Dim(1) == k.Rank) && t.Dim(2) == 1
}

// isOfAdapter reports whether a tensor is the product of an adapter, added to its matrix's product.
func (k *kinds) isOfAdapter(t *ggml.Tensor) bool { return isProduct(t) && k.of[t.Key()] == Adapters }

// isByHead reports whether a tensor is stored by head, like scores: [·, tokens, heads, ·].
func (k *kinds) isByHead(t *ggml.Tensor) bool {
	return t.Dim(1) > 1 && (t.Dim(2) == k.Heads || t.Dim(2) == k.KVHeads)
}

// originOf returns the origin of a tensor. Leaves in F32 and I32 are activations, adapters, vectors
// and inputs.
func (k *kinds) originOf(t *ggml.Tensor) origin {
	if known, is := k.origin[t.Key()]; is {
		return known
	}
	from := constant
	k.origin[t.Key()] = from // a cast is its own operand
	for _, s := range t.Sources() {
		from = max(from, k.originOf(s))
	}
	if t.Op() == "none" {
		from = changing
		if t.Type() != ggml.F32 && t.Type() != ggml.I32 && !k.isLowRank(t) {
			from = frozen
		}
	}
	k.origin[t.Key()] = from
	return from
}
