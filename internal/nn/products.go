package nn

import "github.com/goggml/ggml"

// A Product is a matrix W [n_in, n_out] and what it multiplies: X [n_in, n], and [n_out, n] in
// the gradient of that. Where a copy of Wᵀ is kept, the gradient may have that instead of W.
type Product struct {
	W, X, Transposed *ggml.Tensor
	Exact            bool // the product is in F32 whatever the compute type
	// Attended says that the product is the gradient of what attention returns. The gradients of scores are its small
	// differences, so an error of 1 % may become 10 % of them.
	Attended bool
}

// Products are added up: in F32 whatever the compute type where F32Sums demands it.
type Products struct {
	F32Sums bool
	List    []Product
}

// GradOperands are X [n_in, n] and the gradient Dy [n_out, n] of W·X, and what the gradient of W is added to.
type GradOperands struct{ Acc, X, Dy *ggml.Tensor }

// PairOperands are two matrices.
type PairOperands struct{ X, Y *ggml.Tensor }

// Products of linear layers, and their gradients.
var (
	// Cast is x in the type in which products with frozen weights take it, and CastLowRank what the gradient of
	// an adapter's B, of few rows, takes.
	Cast        = &Op[*ggml.Tensor, *ggml.Tensor]{func(_ *Tape, x *ggml.Tensor) *ggml.Tensor { return x }}
	CastLowRank = &Op[*Value, *ggml.Tensor]{(*Tape).LowPrecision}
	// MatMul is Σ W·X [n_out, n].
	MatMul = &Op[Products, *ggml.Tensor]{plainMatMul}
	// MatMulGradInput is Σ Wᵀ·X [n_in, n], for the gradients X of products with W.
	MatMulGradInput = &Op[Products, *ggml.Tensor]{plainMatMulGradInput}
	// AccumulateGradWeight adds Σ x ⊗ dy, the gradient of W in W·x, to acc [n_in, n_out] in place.
	AccumulateGradWeight = &Op[GradOperands, *ggml.Tensor]{func(t *Tape, g GradOperands) *ggml.Tensor {
		return t.C.AddInPlace(g.Acc, OuterProducts.Build(t, PairOperands{g.X, g.Dy}))
	}}
	// OuterProducts is Σ x ⊗ y over the columns of x [m, n] and y [k, n] → [m, k].
	OuterProducts = &Op[PairOperands, *ggml.Tensor]{func(t *Tape, p PairOperands) *ggml.Tensor {
		return mulMat(t.C, transposed(t.C, p.X), transposed(t.C, p.Y))
	}}
	// MulTransposed is Xᵀ·Y [m, n] of X [m, k] and Y [k, n].
	MulTransposed = &Op[PairOperands, *ggml.Tensor]{func(t *Tape, p PairOperands) *ggml.Tensor {
		return mulMat(t.C, transposed(t.C, p.X), p.Y)
	}}
)

func areF32(_ *Tape, p PairOperands) bool { return p.X.Type() == ggml.F32 && p.Y.Type() == ggml.F32 }

func plainMatMul(t *Tape, p Products) *ggml.Tensor {
	return sum(t.C, p.List, func(p Product) *ggml.Tensor { return mulMat(t.C, p.W, p.X) })
}

// matMulDequantised does not round x to 8 bits, as products with quantised weights do.
func matMulDequantised(t *Tape, p Products) *ggml.Tensor {
	return sum(t.C, p.List, func(p Product) *ggml.Tensor { return mulMat(t.C, dequantised(t.C, p.W, p.X.Type()), p.X) })
}

func plainMatMulGradInput(t *Tape, p Products) *ggml.Tensor {
	return sum(t.C, p.List, func(p Product) *ggml.Tensor {
		if p.Transposed != nil {
			return mulMat(t.C, p.Transposed, p.X)
		}
		return MulTransposed.Build(t, PairOperands{dequantised(t.C, p.W, p.X.Type()), p.X})
	})
}

// matMul is MatMul of products, and matMulGradInput theirs.
func (t *Tape) matMul(f32Sums bool, products ...Product) *ggml.Tensor {
	return MatMul.Build(t, Products{f32Sums, products})
}

func (t *Tape) matMulGradInput(f32Sums bool, products ...Product) *ggml.Tensor {
	return MatMulGradInput.Build(t, Products{f32Sums, products})
}

// mulMat is W·x.
func mulMat(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor { return keepF32(w, c.MulMat(w, x)) }

// keepF32 lets a product with weights in F32 stay so: some devices would round it.
func keepF32(w, y *ggml.Tensor) *ggml.Tensor {
	if w.Type() == ggml.F32 {
		y.SetAccPrecision(ggml.PrecisionF32)
	}
	return y
}

// sum adds up products.
func sum(c *ggml.Context, products []Product, product func(p Product) *ggml.Tensor) *ggml.Tensor {
	var all *ggml.Tensor
	for _, p := range products {
		all = added(c, all, product(p))
	}
	return all
}

// added is all + x, where all may be nil.
func added(c *ggml.Context, all, x *ggml.Tensor) *ggml.Tensor {
	if all == nil {
		return x
	}
	return c.Add(all, x)
}

// joined puts x behind all, which may be nil, along a dimension.
func joined(c *ggml.Context, all, x *ggml.Tensor, dim int) *ggml.Tensor {
	if all == nil {
		return x
	}
	return c.Concat(all, x, dim)
}

// transposed is a contiguous copy of xᵀ.
func transposed(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor { return c.Cont(c.Transpose(x)) }

// dequantised returns w in F32 or BF16, by a lookup of all rows, which devices have for all types.
func dequantised(c *ggml.Context, w *ggml.Tensor, typ ggml.Type) *ggml.Tensor {
	if w.Type() == typ {
		return w
	}
	if w.Type() != ggml.F32 {
		// Row numbers are exact in F32 up to 2²⁴; a vocabulary has fewer tokens, and experts rows.
		shape, n := w.Shape(), w.NumElements()/max(1, w.Dim(0))
		rows := c.Cast(c.Arange(0, float32(n), 1), ggml.I32)
		w = c.Reshape(c.GetRows(c.Reshape(w, w.Dim(0), n), rows), shape...)
	}
	if typ != ggml.F32 {
		w = c.Cast(w, typ)
	}
	return w
}
