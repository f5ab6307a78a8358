package nn

import "github.com/goggml/ggml"

// Copies keep frozen matrices a second time, as products take them: made once, instead of at each
// use. What is not kept is nil.
type Copies interface {
	// Matrix is a copy of W in the type of [Cast].
	Matrix(w *ggml.Tensor) *ggml.Tensor
	// Transposed is one of Wᵀ, which products that flow back multiply with.
	Transposed(w *ggml.Tensor) *ggml.Tensor
	// Folded is [W|B₁|B₂…] [n_in + Σr, n_out] with the B of W's adapters, which follow the columns
	// of W: one product adds up W's product and the adapters'.
	Folded(w *ggml.Tensor, adapters []LoRAPair) *ggml.Tensor
	// FoldedTransposed is [Wᵀ|A₁ᵀ|A₂ᵀ…] [n_out + Σr, n_in].
	FoldedTransposed(w *ggml.Tensor, adapters []LoRAPair) *ggml.Tensor
}

// hasCopies reports whether there may be copies of a matrix: the lowering takes them, it is frozen, and
// products with it are not exact.
func (t *Tape) hasCopies(m Matrix) bool {
	return t.Copies != nil && t.Lowering.TakesCopies && !m.Exact && !t.Trains(m.W)
}

// product returns the product of a matrix, or of its copy, with x.
func (t *Tape) product(m Matrix, x *ggml.Tensor) Product {
	p := Product{W: m.W, X: x}
	if t.hasCopies(m) {
		if kept := t.Copies.Matrix(m.W); kept != nil {
			p.W = kept
		}
	}
	return p
}

// productBack returns the product of Wᵀ with the gradient dy.
func (t *Tape) productBack(m Matrix, adapters []LoRAPair, dy *ggml.Tensor) Product {
	p := t.product(m, dy)
	if !t.hasCopies(m) {
		return p
	}
	p.Transposed = t.Copies.Transposed(m.W)
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
	if !t.hasCopies(m) || len(adapters) == 0 || m.Scale != nil {
		return nil
	}
	return t.Copies.Folded(m.W, adapters)
}

// foldedTransposed returns Wᵀ with the Aᵀ of its adapters; nil if no such copy is kept. With dropout
// it cannot be used: gradients through A are masked, and gradients through W are not.
func (t *Tape) foldedTransposed(m Matrix, adapters []LoRAPair) *ggml.Tensor {
	if !t.hasCopies(m) || len(adapters) == 0 || m.Scale != nil || t.Dropout != nil {
		return nil
	}
	return t.Copies.FoldedTransposed(m.W, adapters)
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

// FillCopies copies w into a matrix, and transposed into another, of which either may be nil, and which
// may lie in larger ones. The nodes go into a graph.
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
