package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestAdamWOps(t *testing.T) { runOps(t, adamWCases()) }

func adamWCases() []opCase {
	const factor = 0.75
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	params := refmath.From(append(p.Tensor().Data, factor))
	args := func(d *draw) []arg {
		ne := []int64{d.size(200), d.size(9), d.size(3), d.size(3)}
		m, v := refmath.Normal(d.Rand, 0.1, ne...), refmath.Uniform(d.Rand, 0.01, 0.1, ne...)
		return []arg{d.normal(ne...), d.normal(ne...), {values: m}, {values: v}, {values: params}}
	}
	step := func(c *ctx, x tensors) *ggml.Tensor { return c.AdamWInPlace(x[0].SetParam(), x[1], x[2], x[3], x[4]) }
	want := func(x refs) (w, m, v refmath.Tensor) {
		return refmath.OptStepAdamW(x[0], refmath.Scale(x[1], factor), x[2], x[3], p)
	}
	return []opCase{
		inPlace(opCase{
			name: "adamw", layouts: denseOnly, bound: few, runs: 20, args: args, build: step,
			want: func(x refs) refmath.Tensor {
				w, _, _ := want(x)
				return w
			},
		}),
		{
			name: "sum_squares", layouts: denseOnly, bound: few, runs: 20,
			args:  func(d *draw) []arg { return []arg{d.normal(d.size(300), d.size(300), d.size(2), d.size(2))} },
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.SumSquares(x[0]) },
			want:  func(x refs) refmath.Tensor { return refmath.Sum(refmath.Sqr(x[0])) },
		},
	}
}

// A step moves both moments too, and clears the gradient.
func TestAdamWMoments(t *testing.T) {
	const n, factor = 1000, 0.75
	p := refmath.AdamWAt(3, 0.01, 0.9, 0.99, 1e-8, 0.1)
	d := rng(1)
	values := []refmath.Tensor{refmath.Normal(d, 1, n), refmath.Normal(d, 1, n), refmath.Normal(d, 0.1, n), refmath.Uniform(d, 0.01, 0.1, n)}
	w := newWorkbench(t)
	var x []*ggml.Tensor
	for _, v := range values {
		x = append(x, w.leaf(v.Float32()...))
	}
	params := w.leaf(refmath.From(append(p.Tensor().Data, factor)).Float32()...)
	w.compute(w.NewGraph(w.AdamWInPlace(x[0].SetParam(), x[1], x[2], x[3], params)))
	a, m, v := refmath.OptStepAdamW(values[0], refmath.Scale(values[1], factor), values[2], values[3], p)
	for i, want := range []refmath.Tensor{a, refmath.New(n), m, v} {
		got, err := ggml.Read[float32](x[i])
		require.NoError(t, err)
		require.InDeltaSlice(t, want.Float32(), got, 1e-6, "operand %d", i)
	}
}

// Second moments from zero and the smallest normal number to the largest.
func TestAdamWExtremes(t *testing.T) {
	v := []float32{0, 0x1p-126, 1e-37, 1e-20, 1, 1e20, 3e38, float32(math.Inf(1)), float32(math.NaN()), -1}
	w := newWorkbench(t)
	same := func(x float32) *ggml.Tensor {
		values := make([]float32, len(v))
		for i := range values {
			values[i] = x
		}
		return w.leaf(values...)
	}
	// β are one: the moments stay as they are, and a becomes −1/(√v + ε).
	const epsilon = 1e-30
	params := w.leaf(1, 1, 1, epsilon, 0, 1, 1, 1)
	moved := w.AdamWInPlace(same(0).SetParam(), same(0), same(1), w.leaf(v...), params).SetOutput()
	w.compute(w.NewGraph(moved))
	got, err := ggml.Read[float32](moved)
	require.NoError(t, err)
	for i, x := range v[:7] {
		require.InEpsilon(t, -1/(math.Sqrt(float64(x))+epsilon), got[i], 1e-6, "v %v", x)
	}
	for i, x := range got[7:] {
		require.True(t, x != x, "v %v → %v", v[7+i], x)
	}
}

func TestAdamWOpsMisuse(t *testing.T) {
	f32 := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	refused(t, map[string]func(c *ggml.Context){
		"a has type f16; it must have f32": func(c *ggml.Context) { c.SumSquares(c.NewTensor(ggml.F16, 4)) },
		"a must be contiguous":             func(c *ggml.Context) { c.SumSquares(c.Transpose(f32(c, 4, 3))) },
		"a must be marked as a parameter":  func(c *ggml.Context) { c.AdamWInPlace(f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 8)) },
		"params must have 8 elements": func(c *ggml.Context) {
			c.AdamWInPlace(f32(c, 4).SetParam(), f32(c, 4), f32(c, 4), f32(c, 4), f32(c, 7))
		},
		"params must be contiguous": func(c *ggml.Context) {
			c.AdamWInPlace(f32(c, 4).SetParam(), f32(c, 4), f32(c, 4), f32(c, 4), c.Transpose(f32(c, 4, 2)))
		},
		"an operand shares memory with the one that is changed": func(c *ggml.Context) {
			x := f32(c, 8)
			c.AdamWInPlace(f32(c, 4).SetParam(), f32(c, 4), f32(c, 4), c.View(x, []int64{4}, nil, 0), x)
		},
		"m has type f16; it must have f32": func(c *ggml.Context) {
			c.AdamWInPlace(f32(c, 4).SetParam(), f32(c, 4), c.NewTensor(ggml.F16, 4), f32(c, 4), f32(c, 8))
		},
		"the shapes must be equal": func(c *ggml.Context) {
			c.AdamWInPlace(f32(c, 4).SetParam(), f32(c, 4), f32(c, 4), f32(c, 5), f32(c, 8))
		},
	})
}
