package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func reductionCases() []opCase {
	unary := func(name string, build func(c *ctx, a *ggml.Tensor) *ggml.Tensor, ref func(a refmath.Tensor) refmath.Tensor, bound *optest.Bound) opCase {
		return opCase{
			Name: name, Layouts: optest.ContiguousRows, Bound: bound, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0]) },
			Want:  func(x refs) refmath.Tensor { return ref(x[0]) },
		}
	}
	var k int
	sum := unary("sum", (*ctx).Sum, refmath.Sum, optest.LongSum)
	half := sum
	half.Name, half.Types = "sum_half", []ggml.Type{ggml.F16, ggml.BF16}
	argmax := unary("argmax", (*ctx).ArgMax, refmath.ArgMax, optest.Exact)
	argmax.Operands = func(d *draw) []operand { return []operand{d.Normal(d.Size(70), d.Size(5))} }
	sorted := func(name string, order ggml.SortOrder) opCase {
		k := unary(name, func(c *ctx, a *ggml.Tensor) *ggml.Tensor { return c.ArgSort(a, order) },
			func(a refmath.Tensor) refmath.Tensor { return refmath.ArgSort(a, order == ggml.Descending) }, optest.Exact)
		k.Layouts = optest.UniformRows
		return k
	}
	return []opCase{
		sum, half, argmax, sorted("argsort", ggml.Ascending), sorted("argsort_descending", ggml.Descending),
		unary("sum_rows", (*ctx).SumRows, refmath.SumRows, optest.LongSum),
		unary("mean", (*ctx).Mean, refmath.Mean, optest.LongSum),
		unary("cumsum", (*ctx).CumSum, refmath.CumSum, optest.LongSum),
		{
			Name: "top_k", Layouts: optest.UniformRows, Unordered: true,
			Operands: func(d *draw) []operand {
				a := one(d)
				k = int(d.Size(a[0].Values.Ne[0]))
				return a
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.TopK(x[0], k) },
			Want:  func(x refs) refmath.Tensor { return refmath.TopK(x[0], int64(k)) },
		},
		{
			Name: "count_equal", Layouts: optest.ContiguousOnly,
			Operands: func(d *draw) []operand {
				ne := d.Shape()
				return []operand{d.Indices(3, ne[:]...), d.Indices(3, ne[:]...)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.CountEqual(x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.CountEqual(x[0], x[1]) },
		},
	}
}

func argSortTopKCases() []opCase {
	var k int
	return []opCase{
		{
			Name: "argsort_top_k", Layouts: optest.UniformRows,
			Operands: func(d *draw) []operand {
				a := one(d)
				k = int(d.Size(a[0].Values.Ne[0]))
				return a
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ArgSortTopK(x[0], k) },
			Want:  func(x refs) refmath.Tensor { return refmath.TopK(x[0], int64(k)) },
		},
	}
}

func TestArgSortTopKErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.ArgSortTopK(m.a, 5) }, "argsort_top_k(a f32[4, 3]): k is 5; it must be 1 to ne0, which is 4"},
	})
}
