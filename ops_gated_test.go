package ggml_test

import (
	"testing"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestMoreGatedOps(t *testing.T) { runOps(t, gatedCases()) }

func gatedCases() []opCase {
	targets := append(storedTypes(), plainTypes...)
	var at int
	var to ggml.Type
	var k int
	return []opCase{
		{
			name: "add_id", layouts: denseRows, bound: few,
			args: func(d *draw) []arg {
				n, used, tokens, experts := d.size(40), d.size(4), d.size(5), d.size(6)
				return []arg{d.normal(n, used, tokens), d.normal(n, experts), d.ids(experts, used, tokens)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddID(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.AddID(x[0], x[1], x[2]) },
		},
		{
			name: "add_cast", types: quantizedTypes(), layouts: denseOnly, bound: few, runs: len(targets),
			args: func(d *draw) []arg {
				at++
				to = targets[at%len(targets)]
				n, rows := 256*d.size(2), d.size(5)
				return []arg{d.normal(n, rows), d.f32(n, rows)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], to) },
			want:  func(x refs) refmath.Tensor { return refmath.Add(x[0], x[1]) },
		},
		{
			name: "add_cast_half", types: []ggml.Type{ggml.F16, ggml.BF16}, layouts: denseOnly, bound: few,
			args: pair32, want: func(x refs) refmath.Tensor { return refmath.Add(x[0], x[1]) },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], ggml.F32) },
		},
		{
			name: "add_cast_same", types: []ggml.Type{ggml.F16, ggml.BF16}, layouts: denseOnly, bound: few,
			args: pair32, want: func(x refs) refmath.Tensor { return refmath.Add(x[0], x[1]) },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddCast(x[0], x[1], x[0].Type()) },
		},
		{
			name: "xielu", types: floatTypes, layouts: evenRows, bound: fast, args: one,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.XIELU(x[0], 0.5, 0.75, 0.5, -0.125) },
			want:  func(x refs) refmath.Tensor { return refmath.Xielu(x[0], 0.5, 0.75, 0.5, -0.125) },
		},
		{
			name: "swiglu_oai", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: evenRows, bound: fast, args: pair,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUOAI(x[0], x[1], 1.5, 0.75) },
			want:  func(x refs) refmath.Tensor { return refmath.SwiGLUOAI(x[0], x[1], 1.5, 0.75) },
		},
		{
			name: "swiglu_clamp", types: []ggml.Type{ggml.F32, ggml.F16}, layouts: evenRows, bound: fast, args: pair,
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SwiGLUClamp(x[0], x[1], 0.75) },
			want:  func(x refs) refmath.Tensor { return refmath.SwiGLUClamp(x[0], x[1], 0.75) },
		},
		{
			name: "argsort_top_k", layouts: evenRows,
			args: func(d *draw) []arg {
				a := one(d)
				k = int(d.size(a[0].values.Ne[0]))
				return a
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.ArgSortTopK(x[0], k) },
			want:  func(x refs) refmath.Tensor { return refmath.TopK(x[0], int64(k)) },
		},
		{
			name: "soft_max_sinks_f32", layouts: denseOnly, bound: fast,
			args: func(d *draw) []arg {
				n, rows, heads := d.size(40), d.size(5), d.size(4)
				return []arg{d.normal(n, rows, heads, d.size(2)), d.normal(n, rows), d.normal(heads)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxSinks(x[0], x[1], x[2], 0.5, 0) },
			want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 0) },
		},
		{
			name: "soft_max_sinks_f16", layouts: denseOnly, bound: fast,
			args: func(d *draw) []arg {
				n, rows, heads := d.size(40), d.size(5), d.size(4)
				return []arg{d.normal(n, rows, heads, d.size(2)), d.f32(n, rows).as(ggml.F16), d.f32(heads)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SoftMaxSinks(x[0], x[1], x[2], 0.5, 0) },
			want:  func(x refs) refmath.Tensor { return refmath.SoftMaxExt(x[0], x[1], x[2], 0.5, 0) },
		},
	}
}
