package kernels_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func normCases() []opCase {
	const eps = 1e-3
	shape := func(d *draw) []int64 { return []int64{d.Size(300), d.Size(5), d.Size(3), d.Size(3)} }
	weight := func(d *draw, n int64) operand { return d.Uniform(-2, 2, n).As(ggml.F32) }
	cases := []opCase{{
		Name: "weighted_rms_norm", Layouts: optest.ContiguousRows, Bound: optest.FewRoundings, Runs: 30,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			return []operand{d.Normal(ne...), weight(d, ne[0])}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.WeightedRMSNorm(c, x[0], x[1], eps) },
		Want:  func(x refs) refmath.Tensor { return refmath.Mul(refmath.RMSNorm(x[0], eps), x[1]) },
	}, {
		// For rows of one element, rms is as small as the element, and the gradient is a difference
		// of large numbers.
		Name: "weighted_rms_norm_grad", Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 30,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			ne[0] += 3
			return []operand{d.Normal(ne...), d.Normal(ne...), weight(d, ne[0])}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.WeightedRMSNormGrad(c, x[0], x[1], x[2], eps) },
		Want:  func(x refs) refmath.Tensor { return refmath.RMSNormBack(refmath.Mul(x[0], x[2]), x[1], eps) },
	}, {
		Name: "bare_rms_norm", Layouts: optest.ContiguousRows, Bound: optest.FewRoundings,
		Operands: func(d *draw) []operand { return []operand{d.Normal(shape(d)...)} },
		Build:    func(c *ctx, x tensors) *ggml.Tensor { return kernels.WeightedRMSNorm(c, x[0], nil, eps) },
		Want:     func(x refs) refmath.Tensor { return refmath.RMSNorm(x[0], eps) },
	}, {
		Name: "bare_rms_norm_grad", Layouts: optest.ContiguousRows, Bound: optest.LongSum,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			ne[0] += 3
			return []operand{d.Normal(ne...), d.Normal(ne...)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.WeightedRMSNormGrad(c, x[0], x[1], nil, eps) },
		Want:  func(x refs) refmath.Tensor { return refmath.RMSNormBack(x[0], x[1], eps) },
	}}
	// Each of the two results is a case.
	for i, suffix := range []string{"_sum", "_normed"} {
		cases = append(cases, opCase{
			Name: "add_rms_norm" + suffix, Layouts: optest.ContiguousRows, Bound: optest.FewRoundings, Runs: 30,
			Operands: func(d *draw) []operand {
				ne := shape(d)
				return []operand{d.Normal(ne...), d.Normal(ne...), weight(d, ne[0])}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				sum, normed := kernels.AddRMSNorm(c, x[0], x[1], x[2], eps)
				return []*ggml.Tensor{sum, normed}[i]
			},
			Want: func(x refs) refmath.Tensor {
				sum := refmath.Add(x[0], x[1])
				return []refmath.Tensor{sum, refmath.Mul(refmath.RMSNorm(sum, eps), x[2])}[i]
			},
		})
	}
	cases = append(cases, opCase{
		Name: "add_rms_norm_grad", Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 30,
		Operands: func(d *draw) []operand {
			ne := shape(d)
			ne[0] += 3
			return []operand{d.Normal(ne...), d.Normal(ne...), d.Normal(ne...), weight(d, ne[0])}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.AddRMSNormGrad(c, x[0], x[1], x[2], x[3], eps) },
		Want: func(x refs) refmath.Tensor {
			return refmath.Add(x[0], refmath.RMSNormBack(refmath.Mul(x[1], x[3]), x[2], eps))
		},
	})
	// Types are probed with the first, which has all operands.
	for _, k := range []struct {
		suffix       string
		weight, bias bool
	}{{"", true, true}, {"_without_bias", true, false}, {"_without_weight", false, true}, {"_alone", false, false}} {
		// vectors returns the weight and the bias, the optional operands after the first.
		vectors := func(x tensors) (w, b *ggml.Tensor) {
			if k.weight {
				w, x = x[0], x[1:]
			}
			if k.bias {
				b = x[0]
			}
			return w, b
		}
		cases = append(cases, opCase{
			Name: "layer_norm" + k.suffix, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 20,
			Operands: func(d *draw) []operand {
				ne := shape(d)
				ne[0] += 3
				args := []operand{d.Normal(ne...)}
				for _, has := range []bool{k.weight, k.bias} {
					if has {
						args = append(args, weight(d, ne[0]))
					}
				}
				return args
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				w, b := vectors(x[1:])
				return kernels.LayerNorm(c, x[0], w, b, eps)
			},
			Want: func(x refs) refmath.Tensor {
				y := refmath.Norm(x[0], eps)
				if k.weight {
					y = refmath.Mul(y, x[1])
				}
				if k.bias {
					y = refmath.Add(y, x[len(x)-1])
				}
				return y
			},
		})
		if k.bias != k.weight {
			continue // tested only with both or neither
		}
		cases = append(cases, opCase{
			Name: "layer_norm_grad" + k.suffix, Layouts: optest.ContiguousRows, Bound: optest.LongSum, Runs: 20,
			Operands: func(d *draw) []operand {
				ne := shape(d)
				ne[0] += 5
				args := []operand{d.Normal(ne...), d.Normal(ne...)}
				if k.weight {
					args = append(args, weight(d, ne[0]))
				}
				return args
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				var w *ggml.Tensor
				if k.weight {
					w = x[2]
				}
				return kernels.LayerNormGrad(c, x[0], x[1], w, eps)
			},
			Want: func(x refs) refmath.Tensor {
				dy := x[0]
				if k.weight {
					dy = refmath.Mul(dy, x[2])
				}
				return refmath.NormBack(dy, x[1], eps)
			},
		})
	}
	return cases
}

// Rows far from 0 lose no more accuracy than their mean, rows of equal elements become 0, and a NaN
// makes its row NaN.
func TestLayerNormExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, n := range []int{4, 32, 46} {
		for _, k := range []struct{ even, odd, want float32 }{
			{5, 5, 0}, {999, 1001, 1}, {-1e15, 1e15, 1}, {0, nan, nan}, {0, inf, nan},
		} {
			w := optest.NewWorkbench(t)
			values := make([]float32, n)
			for i := range values {
				values[i] = []float32{k.even, k.odd}[i%2]
			}
			y := kernels.LayerNorm(w.Context, w.Leaf(values...), nil, nil, 1e-6).SetOutput()
			w.Compute(w.NewGraph(y))
			for i, got := range optest.Values(t, y) {
				if k.want != k.want {
					require.True(t, got != got, "%v → %v", k, got)
					continue
				}
				require.InDelta(t, []float32{-k.want, k.want}[i%2], got, 1e-6, "%v of %d", k, n)
			}
		}
	}
}

// Numbers far from one, and NaN, in whole steps of the vectorised loops and in the remainder.
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

// The op equals ggml's own, which sessions on other devices use.
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

// A sum with its norm, and their gradient, equal the ops one after the other, to the bit.
func TestAddRMSNormIsBoth(t *testing.T) {
	for m := int64(1); m < 4000; m = m*3/2 + 1 {
		w := optest.NewWorkbench(t)
		leaf := func(seed uint64) *ggml.Tensor { return w.Reshape(w.Leaf(optest.Normal(seed, int(m*7))...), m, 7) }
		weight := w.Leaf(optest.Normal(5, int(m))...)
		sum, normed := kernels.AddRMSNorm(w.Context, leaf(1), leaf(2), weight, 1e-6)
		wantSum := w.Add(leaf(1), leaf(2))
		got := []*ggml.Tensor{sum, normed, kernels.AddRMSNormGrad(w.Context, leaf(3), leaf(4), sum, weight, 1e-6)}
		want := []*ggml.Tensor{
			wantSum, kernels.WeightedRMSNorm(w.Context, wantSum, weight, 1e-6),
			w.Add(leaf(3), kernels.WeightedRMSNormGrad(w.Context, leaf(4), wantSum, weight, 1e-6)),
		}
		g := w.NewGraph()
		for i := range got {
			g.Expand(got[i].SetOutput())
			g.Expand(want[i].SetOutput())
		}
		w.Compute(g)
		for i := range got {
			require.Equal(t, optest.Values(t, want[i]), optest.Values(t, got[i]), "result %d of %d elements", i, m)
		}
	}
}

// Results are equal to the bit for any number of threads.
func TestNormThreads(t *testing.T) {
	const m, n = 1152, 13
	w := optest.NewWorkbench(t)
	leaf := func(seed uint64) *ggml.Tensor { return w.Reshape(w.Leaf(optest.Normal(seed, m*n)...), m, n) }
	x, dy, weight := leaf(1), leaf(2), w.Leaf(optest.Normal(3, m)...)
	results := []*ggml.Tensor{
		kernels.WeightedRMSNorm(w.Context, x, weight, 1e-6).SetOutput(), kernels.WeightedRMSNormGrad(w.Context, dy, x, weight, 1e-6).SetOutput(),
		kernels.LayerNorm(w.Context, x, weight, weight, 1e-6).SetOutput(), kernels.LayerNormGrad(w.Context, dy, x, weight, 1e-6).SetOutput(),
		kernels.AddRMSNormGrad(w.Context, x, dy, x, weight, 1e-6).SetOutput(),
	}
	sum, normed := kernels.AddRMSNorm(w.Context, x, dy, weight, 1e-6)
	results = append(results, sum.SetOutput(), normed.SetOutput())
	g := w.NewGraph(results...)
	w.Compute(g)
	var want [][]float32
	for _, y := range results {
		want = append(want, optest.Values(t, y))
	}
	for _, threads := range []int{1, 3} {
		require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
		for i, y := range results {
			require.Equal(t, want[i], optest.Values(t, y))
		}
	}
}

func TestNormErrors(t *testing.T) {
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
		"b must have 4 elements, as the rows of x; there are 3": func(c *ggml.Context) { kernels.LayerNorm(c, x(c, 4, 3), nil, x(c, 3), 1) },
		"w has type i32; it must have f32":                      func(c *ggml.Context) { kernels.LayerNormGrad(c, x(c, 4, 3), x(c, 4, 3), c.NewTensor(ggml.I32, 4), 1) },
		"operand 0 is nil":                                      func(c *ggml.Context) { kernels.LayerNorm(c, nil, nil, nil, 1) },
		"eps is +Inf; it must not be negative":                  func(c *ggml.Context) { kernels.LayerNorm(c, x(c, 4), nil, nil, float32(math.Inf(1))) },
		"the shapes must be equal":                              func(c *ggml.Context) { kernels.WeightedRMSNormGrad(c, x(c, 4, 2), x(c, 4, 3), x(c, 4), 1) },
		"y has type f16; it must have f32": func(c *ggml.Context) {
			kernels.AddRMSNorm(c, x(c, 4, 3), c.NewTensor(ggml.F16, 4, 3), x(c, 4), 1)
		},
		"the rows of y must be contiguous": func(c *ggml.Context) { kernels.AddRMSNorm(c, x(c, 4, 3), c.Transpose(x(c, 3, 4)), x(c, 4), 1) },
		"dsum has type f16; it must have f32": func(c *ggml.Context) {
			kernels.AddRMSNormGrad(c, c.NewTensor(ggml.F16, 4, 3), x(c, 4, 3), x(c, 4, 3), x(c, 4), 1)
		},
		"the rows of dy must be contiguous; call": func(c *ggml.Context) { kernels.WeightedRMSNormGrad(c, c.Transpose(x(c, 3, 4)), x(c, 4, 3), x(c, 4), 1) },
	})
}
