package ggml_test

import (
	"slices"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// weightTypes lists the types that a matrix can have.
func weightTypes() []ggml.Type {
	return slices.DeleteFunc(ggml.Types(), func(t ggml.Type) bool { return !t.CanQuantize() })
}

// depth draws the length of a dot product.
func (d *draw) depth() int64 {
	return d.rowLen(90)
}

func TestMatrixOps(t *testing.T) { runOps(t, matrixCases()) }

func matrixCases() []opCase {
	return []opCase{
		{
			name: "mul_mat", types: weightTypes(), layouts: denseRows, bound: products,
			args: func(d *draw) []arg {
				k, p, q := d.depth(), d.size(2), d.size(2)
				b := d.f32(k, d.size(40), p*d.size(3), q*d.size(2))
				b.layout = d.layout()
				return []arg{d.normal(k, d.size(40), p, q), b}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			// Large enough for BLAS.
			name: "mul_mat_large", types: weightTypes(), layouts: denseOnly, bound: products, runs: 3,
			args: func(d *draw) []arg {
				k := max(31+d.size(40), d.typ.BlockSize())
				k -= k % d.typ.BlockSize()
				return []arg{d.normal(k, 31+d.size(20)), d.f32(k, 31+d.size(20))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			name: "out_prod_large", layouts: denseOnly, bound: products, runs: 3,
			args: func(d *draw) []arg {
				k := 31 + d.size(20)
				return []arg{d.normal(31+d.size(20), k), d.f32(31+d.size(20), k)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.OutProd(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], x[1]) },
		},
		{
			name: "mul_mat_one_type", types: floatTypes, layouts: denseRows, bound: products,
			args: func(d *draw) []arg {
				k := d.depth()
				return []arg{d.normal(k, d.size(40)), d.normal(k, d.size(40), d.size(3), d.size(2))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			name: "mul_mat_id", types: weightTypes(), layouts: denseOnly, bound: products,
			args: func(d *draw) []arg {
				k, experts, used, n := d.depth(), 1+d.size(4), d.size(3), d.size(9)
				slots := used
				if d.IntN(2) == 0 {
					slots = 1
				}
				b := d.f32(k, slots, n)
				return []arg{d.normal(k, d.size(20), experts, 1), b, d.ids(experts, used, n)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMatID(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMatID(x[0], x[1], x[2]) },
		},
		{
			name: "out_prod", types: slices.DeleteFunc(weightTypes(), func(t ggml.Type) bool { return t == ggml.BF16 }),
			layouts: denseRows, bound: products,
			args: func(d *draw) []arg {
				k, p, q := d.size(40), d.size(2), d.size(2)
				b := d.f32(d.size(40), k, p, q)
				if d.typ == ggml.F32 {
					b = d.f32(d.size(40), k, p*d.size(2), q*d.size(2))
				}
				return []arg{d.normal(d.depth(), k, p, q), b}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.OutProd(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], x[1]) },
		},
		{
			name: "out_prod_transposed", bound: products, layouts: denseOnly,
			args: func(d *draw) []arg {
				k := d.size(40)
				return []arg{d.normal(d.size(40), k), d.normal(k, d.size(40))}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.OutProd(x[0], c.Transpose(x[1])) },
			want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], refmath.Transpose(x[1])) },
		},
		{
			name: "diag", layouts: denseRows,
			args:  func(d *draw) []arg { return []arg{d.normal(d.size(20), 1, d.size(3), d.size(3))} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.Diag(x[0]) },
			want:  func(x refs) refmath.Tensor { return refmath.Diag(x[0]) },
		},
	}
}
