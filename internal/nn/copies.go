package nn

import (
	"cmp"

	"github.com/goggml/ggml"
)

// Copies hold frozen matrices in the form that products need, converted once instead of at each use.
// Each method returns nil if there is no such copy.
type Copies interface {
	// Matrix returns W in the type of [Cast].
	Matrix(w *ggml.Tensor) *ggml.Tensor
	// Transposed returns Wᵀ in that type, for the backward pass.
	Transposed(w *ggml.Tensor) *ggml.Tensor
	// Folded returns [W|B₁|B₂…] [n_in + Σr, n_out], where the B of W's adapters follow the columns of
	// W: one product sums W's product and the adapters'.
	Folded(w *ggml.Tensor, adapters []LoRAPair) *ggml.Tensor
	// FoldedTransposed returns [Wᵀ|A₁ᵀ|A₂ᵀ…] [n_out + Σr, n_in].
	FoldedTransposed(w *ggml.Tensor, adapters []LoRAPair) *ggml.Tensor
}

// FrozenCopies returns the tape's copies of frozen matrices, for products that would convert them at each use. A table whose
// products convert as fast as they read has a row that returns nil.
var FrozenCopies = &Op[Matrix, Copies]{func(t *Tape, _ Matrix) Copies { return t.Copies }}

// copiesOf returns the copies that products of m use, or nil: trained matrices and exact products have none.
func (t *Tape) copiesOf(m Matrix) Copies {
	if m.Exact || t.Trains(m.W) {
		return nil
	}
	return FrozenCopies.Build(t, m)
}

// product returns the product of a matrix, or of its copy, with x.
func (t *Tape) product(m Matrix, x *ggml.Tensor) Product {
	p := Product{W: m.W, X: x, Exact: m.Exact}
	if c := t.copiesOf(m); c != nil {
		p.W = cmp.Or(c.Matrix(m.W), m.W)
	}
	return p
}

// productBack returns the product of Wᵀ with the gradient dy.
func (t *Tape) productBack(m Matrix, adapters []LoRAPair, dy *ggml.Tensor) Product {
	p, c := t.product(m, dy), t.copiesOf(m)
	p.Attended = m.Attended
	if c == nil {
		return p
	}
	p.Transposed = c.Transposed(m.W)
	if folded := t.folded(m, adapters); p.Transposed == nil && folded != nil {
		// The rows of [W|B]ᵀ that are Wᵀ, since devices transpose whole matrices fast.
		whole := transposed(t.C, folded)
		p.Transposed = t.C.View(whole, []int64{whole.Dim(0), m.W.Dim(0)}, []int64{whole.Stride(1)}, 0)
	}
	return p
}

// folded returns W with the B of its adapters; nil if no such copy is kept. If the product has a
// scale, adapters are added after it.
func (t *Tape) folded(m Matrix, adapters []LoRAPair) *ggml.Tensor {
	c := t.copiesOf(m)
	if c == nil || len(adapters) == 0 || m.Scale != nil {
		return nil
	}
	return c.Folded(m.W, adapters)
}

// foldedTransposed returns Wᵀ with the Aᵀ of its adapters; nil if no such copy is kept. With dropout
// it cannot be used: gradients through A are masked, and gradients through W are not.
func (t *Tape) foldedTransposed(m Matrix, adapters []LoRAPair) *ggml.Tensor {
	c := t.copiesOf(m)
	if c == nil || len(adapters) == 0 || m.Scale != nil || t.Dropout != nil {
		return nil
	}
	return c.FoldedTransposed(m.W, adapters)
}

// stacked is x [n_in, n] above low-rank values [r, n] of the same columns, as folded matrices multiply
// it.
func (t *Tape) stacked(x *ggml.Tensor, lowRank []*Value) *ggml.Tensor {
	below := t.LowPrecision(lowRank[0])
	for _, h := range lowRank[1:] {
		below = t.C.Concat(below, t.LowPrecision(h), 0)
	}
	return t.C.Concat(x, below, 0)
}

// FillCopies copies w into matrix, and its transpose into transposed. Either may be nil, or a view of a larger
// matrix. The nodes go into a graph.
func FillCopies(c *ggml.Context, w, matrix, transposed *ggml.Tensor) []*ggml.Tensor {
	var nodes []*ggml.Tensor
	if matrix != nil {
		w = c.Copy(dequantised(c, w, ggml.F32), matrix)
		nodes = append(nodes, w)
	}
	if transposed != nil {
		w = c.Transpose(dequantised(c, w, transposed.Type()))
		nodes = append(nodes, c.Copy(w, transposed))
	}
	return nodes
}
