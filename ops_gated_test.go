package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
)

func gatedCases() []opCase {
	targets := append(storedTypes(), plainTypes...)
	var at int
	var to ggml.Type
	var k int
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
		{
			Name: "xielu", Types: optest.FloatTypes, Layouts: optest.UniformRows, Bound: optest.VectorExp, Operands: one,
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.XIELU(x[0], ggml.XIELUParams{AlphaN: 0.5, AlphaP: 0.75, Beta: 0.5, Eps: -0.125})
			},
			Want: func(x refs) refmath.Tensor { return refmath.Xielu(x[0], 0.5, 0.75, 0.5, -0.125) },
		},
		{
			Name: "swiglu_oai", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.UniformRows, Bound: optest.VectorExp, Operands: pair,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUOAI(x[0], x[1], 1.5, 0.75) },
			Want:  func(x refs) refmath.Tensor { return refmath.SwiGLUOAI(x[0], x[1], 1.5, 0.75) },
		},
		{
			Name: "swiglu_clamp", Types: []ggml.Type{ggml.F32, ggml.F16}, Layouts: optest.UniformRows, Bound: optest.VectorExp, Operands: pair,
			Build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUClamp(x[0], x[1], 0.75) },
			Want:  func(x refs) refmath.Tensor { return refmath.SwiGLUClamp(x[0], x[1], 0.75) },
		},
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
		{
			Name: "soft_max_sinks_f32", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp,
			Operands: func(d *draw) []operand {
				n, rows, heads := d.Size(40), d.Size(5), d.Size(4)
				return []operand{d.Normal(n, rows, heads, d.Size(2)), d.Normal(n, rows), d.Normal(heads)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.SoftMaxExt(x[0], ggml.SoftMaxOptions{Mask: x[1], Sinks: x[2], Scale: 0.5})
			},
			Want: func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 0) },
		},
		{
			Name: "soft_max_sinks_f16", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp,
			Operands: func(d *draw) []operand {
				n, rows, heads := d.Size(40), d.Size(5), d.Size(4)
				return []operand{d.Normal(n, rows, heads, d.Size(2)), d.F32(n, rows).As(ggml.F16), d.F32(heads)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return c.SoftMaxExt(x[0], ggml.SoftMaxOptions{Mask: x[1], Sinks: x[2], Scale: 0.5})
			},
			Want: func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 0) },
		},
	}
}

func TestGatedErrors(t *testing.T) {
	requireOpErrors(t, []opError{
		{func(m *misuse) { m.c.AddID(m.a, m.b, m.ids) }, "add_id(a f32[4, 3], b f32[5, 2], ids i32[2]): ne0 must be equal: a has 4, b has 5"},
		{func(m *misuse) { m.c.AddCast(m.a, m.a, ggml.F32) }, "add_cast(a f32[4, 3], a f32[4, 3]): a has type f32; it must be f16, bf16 or quantised"},
		{func(m *misuse) { m.c.AddCast(m.c.NewTensor(ggml.F16, 4, 3), m.a, ggml.Q8_0) }, "add_cast(leaf f16[4, 3], a f32[4, 3]): the sum of f16 and f32 cannot have type q8_0; use f32 and Cast"},
		{func(m *misuse) { m.c.AddCast(m.q, m.c.NewTensor(ggml.F32, 32, 2), ggml.IQ3S) }, "add_cast(q q8_0[32, 2], leaf f32[32, 2]): the sum of q8_0 and f32 cannot have type iq3_s; use f32 and Cast"},
		{func(m *misuse) { m.c.ArgSortTopK(m.a, 5) }, "argsort_top_k(a f32[4, 3]): k is 5; it must be 1 to ne0, which is 4"},
	})
}
