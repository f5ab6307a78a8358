package kernels_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/kernels"
)

func normCases() []opCase {
	const eps = 1e-3
	shape := func(d *draw) []int64 { return []int64{d.Size(300), d.Size(5), d.Size(3), d.Size(3)} }
	weight := func(d *draw, n int64) operand { return d.Uniform(-2, 2, n).As(ggml.F32) }
	return []opCase{{
		Name: "weighted_rms_norm", Layouts: optest.ContiguousRows, Bound: optest.FewRoundings, Runs: 30,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			return []operand{d.Normal(ne...), weight(d, ne[0])}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.WeightedRMSNorm(c, x[0], x[1], eps) },
		Want:  func(x refs) refmath.Tensor { return refmath.Mul(refmath.RMSNorm(x[0], eps), x[1]) },
	}, {
		// Of single elements rms is as small as they are, and the gradient a difference of
		// large numbers.
		Name: "weighted_rms_norm_grad", Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 30,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			ne[0] += 3
			return []operand{d.Normal(ne...), d.Normal(ne...), weight(d, ne[0])}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.WeightedRMSNormGrad(c, x[0], x[1], x[2], eps) },
		Want:  func(x refs) refmath.Tensor { return refmath.RMSNormBack(refmath.Mul(x[0], x[2]), x[1], eps) },
	}}
}

// Numbers that are far from one, and those that are no numbers, in whole steps of the
// vectorised loops and behind them.
func TestRMSNormExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, n := range []int{3, 32, 45} {
		for _, k := range []struct{ first, want float32 }{
			{0, 0}, {1e-15, 1e-15 / float32(math.Sqrt(1e-6))}, {1e15, float32(math.Sqrt(float64(n)))}, {nan, nan}, {inf, nan},
		} {
			for _, at := range []int{0, n - 1} {
				w := optest.NewWorkbench(t)
				values := make([]float32, n)
				values[at] = k.first
				y := kernels.WeightedRMSNorm(w.Context, w.Leaf(values...), w.Leaf(optest.Ones(n)...), 1e-6).SetOutput()
				w.Compute(w.NewGraph(y))
				got := optest.Values(t, y)[at]
				if k.want != k.want {
					require.True(t, got != got, "%v → %v", k.first, got)
					continue
				}
				require.InDelta(t, k.want, got, 1e-6*math.Max(1e-6, float64(k.want)), "%v of %d", k.first, n)
			}
		}
	}
}

// Sessions of other lowerings get the same numbers from ggml's own.
func TestRMSNormIsBuiltIn(t *testing.T) {
	for m := int64(1); m < 4000; m = m*3/2 + 1 {
		w := optest.NewWorkbench(t)
		x, weight := w.Reshape(w.Leaf(optest.Normal(1, int(m*7))...), m, 7), w.Leaf(optest.Normal(2, int(m))...)
		y := kernels.WeightedRMSNorm(w.Context, x, weight, 1e-6).SetOutput()
		want := w.Mul(w.RMSNorm(x, 1e-6), weight).SetOutput()
		w.Compute(w.NewGraph(y, want))
		require.Equal(t, optest.Values(t, want), optest.Values(t, y), "%d elements", m)
	}
}

// With any number of threads no bit differs.
func TestRMSNormThreads(t *testing.T) {
	const m, n = 1152, 13
	w := optest.NewWorkbench(t)
	leaf := func(seed uint64) *ggml.Tensor { return w.Reshape(w.Leaf(optest.Normal(seed, m*n)...), m, n) }
	x, dy, weight := leaf(1), leaf(2), w.Leaf(optest.Normal(3, m)...)
	y := kernels.WeightedRMSNorm(w.Context, x, weight, 1e-6).SetOutput()
	dx := kernels.WeightedRMSNormGrad(w.Context, dy, x, weight, 1e-6).SetOutput()
	g := w.NewGraph(y, dx)
	w.Compute(g)
	wantY, wantX := optest.Values(t, y), optest.Values(t, dx)
	for _, threads := range []int{1, 3} {
		require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
		require.Equal(t, wantY, optest.Values(t, y))
		require.Equal(t, wantX, optest.Values(t, dx))
	}
}

func TestRMSNormErrors(t *testing.T) {
	x := func(c *ggml.Context, ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"x has type f16; it must have f32":    func(c *ggml.Context) { kernels.WeightedRMSNorm(c, c.NewTensor(ggml.F16, 4, 3), x(c, 4), 1) },
		"the rows of x must be contiguous":    func(c *ggml.Context) { kernels.WeightedRMSNorm(c, c.Transpose(x(c, 3, 4)), x(c, 4), 1) },
		"w must have 4 elements, as the rows": func(c *ggml.Context) { kernels.WeightedRMSNorm(c, x(c, 4, 3), x(c, 3), 1) },
		"w has type bf16; it must have f32":   func(c *ggml.Context) { kernels.WeightedRMSNorm(c, x(c, 4, 3), c.NewTensor(ggml.BF16, 4), 1) },
		"eps is -1; it must not be negative":  func(c *ggml.Context) { kernels.WeightedRMSNorm(c, x(c, 4, 3), x(c, 4), -1) },
		"eps is NaN; it must not be negative": func(c *ggml.Context) { kernels.WeightedRMSNorm(c, x(c, 4, 3), x(c, 4), float32(math.NaN())) },
		"dy has type f16; it must have f32": func(c *ggml.Context) {
			kernels.WeightedRMSNormGrad(c, c.NewTensor(ggml.F16, 4, 3), x(c, 4, 3), x(c, 4), 1)
		},
		"the shapes must be equal":                func(c *ggml.Context) { kernels.WeightedRMSNormGrad(c, x(c, 4, 2), x(c, 4, 3), x(c, 4), 1) },
		"the rows of dy must be contiguous; call": func(c *ggml.Context) { kernels.WeightedRMSNormGrad(c, c.Transpose(x(c, 3, 4)), x(c, 4, 3), x(c, 4), 1) },
	})
}
