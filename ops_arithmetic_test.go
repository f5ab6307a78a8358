package ggml_test

import (
	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
)

func binaryCases() []opCase {
	binary := func(name string, build func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor, ref func(a, b refmath.Tensor) refmath.Tensor) []opCase {
		k := opCase{
			Name: name, Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.FewRoundings,
			Operands: func(d *draw) []operand {
				ne := d.Shape()
				small := repeated(d, ne)
				b := d.Uniform(0.5, 2, small[:]...)
				b.Layout = optest.Contiguous
				return []operand{d.Normal(ne[:]...), b}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return build(c, x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return ref(x[0], x[1]) },
		}
		// The second operand in F32, and not dense.
		mixed := k
		mixed.Name += "_f32"
		mixed.Types = []ggml.Type{ggml.F16, ggml.BF16}
		mixed.Operands = func(d *draw) []operand {
			ne := d.Shape()
			return []operand{d.Normal(ne[:]...), d.Uniform(0.5, 2, ne[:]...).As(ggml.F32)}
		}
		second := k
		second.Name += "_layouts"
		second.Operands = func(d *draw) []operand {
			ne := d.Shape()
			b := d.Uniform(0.5, 2, ne[:]...)
			b.Layout = optest.AnyLayout[d.IntN(len(optest.AnyLayout))]
			return []operand{d.Normal(ne[:]...), b}
		}
		return []opCase{k, mixed, second}
	}
	var cases []opCase
	cases = append(cases, binary("add", (*ctx).Add, refmath.Add)...)
	cases = append(cases, binary("add_inplace", (*ctx).AddInPlace, refmath.Add)...)
	cases = append(cases, binary("sub", (*ctx).Sub, refmath.Sub)...)
	cases = append(cases, binary("mul", (*ctx).Mul, refmath.Mul)...)
	cases = append(cases, binary("div", (*ctx).Div, refmath.Div)...)
	return cases
}

func scalarCases() []opCase {
	one := func(d *draw) []operand { ne := d.Shape(); return []operand{d.Normal(ne[:]...)} }
	return []opCase{
		{
			Name: "scale", Types: []ggml.Type{ggml.F32, ggml.BF16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Scale(x[0], -1.5) },
			Want:  func(x refs) refmath.Tensor { return refmath.Scale(x[0], -1.5) },
		},
		{
			Name: "scale_bias", Types: []ggml.Type{ggml.F32, ggml.BF16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.ScaleBias(x[0], 2.5, -0.25) },
			Want:  func(x refs) refmath.Tensor { return refmath.ScaleBias(x[0], 2.5, -0.25) },
		},
		{
			Name: "fill", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.ContiguousOnly, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Fill(x[0], 2.5) },
			Want:  func(x refs) refmath.Tensor { return refmath.Fill(x[0], 2.5) },
		},
		{
			Name: "arange", Operands: func(*draw) []operand { return nil }, Bound: optest.FewRoundings,
			Build: func(c *ctx, _ tensors) *ggml.Tensor { return c.Arange(-1, 7.5, 0.75) },
			Want:  func(refs) refmath.Tensor { return refmath.Arange(-1, 7.5, 0.75) },
		},
	}
}
