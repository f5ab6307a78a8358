package ggml_test

import (
	"slices"
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
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
		// The second operand in F32, and not contiguous.
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
	for _, k := range []struct {
		name        string
		op, inPlace func(c *ctx, a, b *ggml.Tensor) *ggml.Tensor
		ref         func(a, b refmath.Tensor) refmath.Tensor
	}{
		{"add", (*ctx).Add, (*ctx).AddInPlace, refmath.Add},
		{"sub", (*ctx).Sub, (*ctx).SubInPlace, refmath.Sub},
		{"mul", (*ctx).Mul, (*ctx).MulInPlace, refmath.Mul},
		{"div", (*ctx).Div, (*ctx).DivInPlace, refmath.Div},
	} {
		inPlace := binary(k.name+"_inplace", k.inPlace, k.ref)
		for i := range inPlace {
			inPlace[i].InPlace = true
		}
		cases = slices.Concat(cases, binary(k.name, k.op, k.ref), inPlace)
	}
	return cases
}

func scalarCases() []opCase {
	one := func(d *draw) []operand { ne := d.Shape(); return []operand{d.Normal(ne[:]...)} }
	return []opCase{
		{
			Name: "scale", Types: []ggml.Type{ggml.F32, ggml.BF16}, Layouts: optest.ContiguousRows, Bound: optest.FewRoundings, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.Scale(x[0], -1.5) },
			Want:  func(x refs) refmath.Tensor { return refmath.Scale(x[0], -1.5) },
		},
		{
			Name: "scale_bias", Types: []ggml.Type{ggml.F32, ggml.BF16}, Layouts: optest.ContiguousRows, Bound: optest.FewRoundings, Operands: one,
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

func addCases() []opCase {
	targets := append(storedTypes(), optest.FloatTypes...)
	var at int
	var to ggml.Type
	return []opCase{
		{
			Name: "add_id", Layouts: optest.ContiguousRows, Bound: optest.FewRoundings,
			Operands: func(d *draw) []operand {
				n, used, tokens, experts := d.Size(40), d.Size(4), d.Size(5), d.Size(6)
				return []operand{d.Normal(n, used, tokens), d.Normal(n, experts), d.Indices(experts, used, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddID(x[0], x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.AddID(x[0], x[1], x[2]) },
		},
		{
			Name: "add_cast", Types: quantizedTypes(), Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings, Runs: len(targets),
			Operands: func(d *draw) []operand {
				at++
				to = targets[at%len(targets)]
				n, rows := 256*d.Size(2), d.Size(5)
				return []operand{d.Normal(n, rows), d.F32(n, rows)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], to) },
			Want:  func(x refs) refmath.Tensor { return refmath.Add(x[0], x[1]) },
		},
		{
			Name: "add_cast_half", Types: []ggml.Type{ggml.F16, ggml.BF16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings,
			Operands: pair32, Want: func(x refs) refmath.Tensor { return refmath.Add(x[0], x[1]) },
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], ggml.F32) },
		},
		{
			Name: "add_cast_same", Types: []ggml.Type{ggml.F16, ggml.BF16}, Layouts: optest.ContiguousOnly, Bound: optest.FewRoundings,
			Operands: pair32, Want: func(x refs) refmath.Tensor { return refmath.Add(x[0], x[1]) },
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], x[0].Type()) },
		},
	}
}

func TestAddErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.AddID(m.a, m.b, m.ids) }, "add_id(a f32[4, 3], b f32[5, 2], ids i32[2]): ne0 must be equal: a has 4, b has 5"},
		{func(m *misuse) { m.c.AddCast(m.a, m.a, ggml.F32) }, "add_cast(a f32[4, 3], a f32[4, 3]): a has type f32; it must be f16, bf16 or quantised"},
		{func(m *misuse) { m.c.AddCast(m.c.NewTensor(ggml.F16, 4, 3), m.a, ggml.Q8_0) }, "add_cast(leaf f16[4, 3], a f32[4, 3]): the sum of f16 and f32 cannot have type q8_0; use f32 and Cast"},
		{func(m *misuse) { m.c.AddCast(m.q, m.c.NewTensor(ggml.F32, 32, 2), ggml.IQ3S) }, "add_cast(q q8_0[32, 2], leaf f32[32, 2]): the sum of q8_0 and f32 cannot have type iq3_s; use f32 and Cast"},
	})
}
