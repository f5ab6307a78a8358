package ggml_test

import (
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func matrixCases() []opCase {
	return []opCase{
		{
			Name: "mul_mat", Types: optest.WeightTypes(), Layouts: optest.ContiguousRows, Bound: optest.MulMat,
			Operands: func(d *draw) []operand {
				k, p, q := d.K(), d.Size(2), d.Size(2)
				b := d.F32(k, d.Size(40), p*d.Size(3), q*d.Size(2))
				b.Layout = d.Layout()
				return []operand{d.Normal(k, d.Size(40), p, q), b}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			// Large enough for BLAS.
			Name: "mul_mat_large", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 3,
			Operands: func(d *draw) []operand {
				k := max(31+d.Size(40), d.Type.BlockSize())
				k -= k % d.Type.BlockSize()
				return []operand{d.Normal(k, 31+d.Size(20)), d.F32(k, 31+d.Size(20))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			Name: "out_prod_large", Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 3,
			Operands: func(d *draw) []operand {
				k := 31 + d.Size(20)
				return []operand{d.Normal(31+d.Size(20), k), d.F32(31+d.Size(20), k)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.OutProd(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], x[1]) },
		},
		{
			Name: "mul_mat_one_type", Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.MulMat,
			Operands: func(d *draw) []operand {
				k := d.K()
				return []operand{d.Normal(k, d.Size(40)), d.Normal(k, d.Size(40), d.Size(3), d.Size(2))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMat(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
		},
		{
			Name: "mul_mat_id", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.MulMat,
			Operands: func(d *draw) []operand {
				k, experts, n := d.K(), 1+d.Size(4), d.Size(9)
				used := 1 + d.Int64N(min(experts, 3))
				slots := used
				if d.IntN(2) == 0 {
					slots = 1
				}
				b := d.F32(k, slots, n)
				return []operand{d.Normal(k, d.Size(20), experts, 1), b, d.Choices(experts, used, n)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.MulMatID(x[0], x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.MulMatID(x[0], x[1], x[2]) },
		},
		{
			Name: "out_prod", Types: slices.DeleteFunc(optest.WeightTypes(), func(t ggml.Type) bool { return t == ggml.BF16 || t == ggml.F8E4M3 }),
			Layouts: optest.ContiguousRows, Bound: optest.MulMat,
			Operands: func(d *draw) []operand {
				k, p, q := d.Size(40), d.Size(2), d.Size(2)
				b := d.F32(d.Size(40), k, p, q)
				if d.Type == ggml.F32 {
					b = d.F32(d.Size(40), k, p*d.Size(2), q*d.Size(2))
				}
				return []operand{d.Normal(d.K(), k, p, q), b}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.OutProd(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], x[1]) },
		},
		{
			Name: "out_prod_transposed", Bound: optest.MulMat, Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				k := d.Size(40)
				return []operand{d.Normal(d.Size(40), k), d.Normal(k, d.Size(40))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.OutProd(x[0], c.Transpose(x[1])) },
			Want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], refmath.Transpose(x[1])) },
		},
		{
			Name: "diag", Layouts: optest.ContiguousRows,
			Operands: func(d *draw) []operand { return []operand{d.Normal(d.Size(20), 1, d.Size(3), d.Size(3))} },
			Build:    func(c *ctx, x tensors) *ggml.Tensor { return c.Diag(x[0]) },
			Want:     func(x refs) refmath.Tensor { return refmath.Diag(x[0]) },
		},
	}
}
