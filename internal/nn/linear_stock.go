package nn

import "github.com/goggml/ggml"

// stockLinear multiplies by the device's own products.
type stockLinear struct {
	stock
	dequantise bool
	compute    ggml.Type // of products with frozen weights
}

func (l stockLinear) Cast(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	if l.compute != ggml.BF16 {
		return x
	}
	return c.Cast(x, ggml.BF16)
}

func (l stockLinear) MatMul(c *ggml.Context, _ bool, products ...Product) *ggml.Tensor {
	return sum(c, products, func(p Product) *ggml.Tensor {
		w := p.W
		if l.dequantise {
			w = dequantised(c, w, p.X.Type())
		}
		return mulMat(c, w, p.X)
	})
}

func (l stockLinear) MatMulGradInput(c *ggml.Context, _ bool, products ...Product) *ggml.Tensor {
	return sum(c, products, func(p Product) *ggml.Tensor {
		if p.Transposed != nil {
			return mulMat(c, p.Transposed, p.X)
		}
		return l.mulTransposed(c, dequantised(c, p.W, p.X.Type()), p.X)
	})
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
		y := product(p)
		if all != nil {
			y = c.Add(all, y)
		}
		all = y
	}
	return all
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

func (l stockLinear) AccumulateGradWeight(c *ggml.Context, acc, x, dy *ggml.Tensor) *ggml.Tensor {
	return c.AddInPlace(acc, l.outerProducts(c, x, dy))
}

// TakesExactGrads reports whether OUT_PROD is there: otherwise operands are transposed, which moves
// less data in BF16.
func (l stockLinear) TakesExactGrads() bool { return l.has.Has(OutProd) }

// outerProducts is Σ x ⊗ y over the columns of x [m, n] and y [k, n] → [m, k].
func (s stock) outerProducts(c *ggml.Context, x, y *ggml.Tensor) *ggml.Tensor {
	if s.has.Has(OutProd) && x.Type() == ggml.F32 && y.Type() == ggml.F32 {
		return c.OutProd(x, y)
	}
	return mulMat(c, transposed(c, x), transposed(c, y))
}

// mulTransposed is Wᵀ·x [m, n] of W [m, k] and x [k, n].
func (s stock) mulTransposed(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor {
	if s.has.Has(OutProd) && w.Type() == ggml.F32 && x.Type() == ggml.F32 {
		return c.OutProd(w, c.Transpose(x))
	}
	return mulMat(c, transposed(c, w), x)
}
