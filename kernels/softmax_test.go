package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/kernels"
)

func causalSoftMax(c *ctx, scores, firstVisible *ggml.Tensor, scale float32, position int) *ggml.Tensor {
	return causalSoftMaxOf(c, scores, firstVisible, scale, kernels.ScoreOptions{}, position)
}

func causalSoftMaxOf(c *ctx, scores, firstVisible *ggml.Tensor, scale float32, o kernels.ScoreOptions, position int) *ggml.Tensor {
	f := testhook.CausalSoftMax.(func(c *ctx, a *ggml.Tensor, of kernels.Attention, scale float32, position int) *ggml.Tensor)
	return f(c, scores, kernels.Attention{FirstVisible: firstVisible, Scores: o}, scale, position)
}

func softMaxCases() []opCase {
	var position int64
	const maxBias = 6
	return []opCase{
		{
			Name: "causal_softmax_everything", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 20, InPlace: true,
			Operands: func(d *draw) []operand {
				queries, heads, batch := d.Size(40), d.Size(5), d.Size(3)
				position = d.Size(200) - 1
				n := position + queries
				first := operand{Type: ggml.I32, Values: refmath.New(n, batch)}
				for sample := range batch {
					copy(first.Values.Data[sample*n:], drawVisible(d, n))
				}
				return []operand{d.Normal(n, queries, heads, batch), first, d.Uniform(-3, 9, heads).As(ggml.F32)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return causalSoftMaxOf(c, x[0], x[1], 3, kernels.ScoreOptions{MaxBias: maxBias, Sinks: x[2]}, int(position))
			},
			Want: func(x refs) refmath.Tensor { return someSoftMax(x[0], x[1], x[2], maxBias, position) },
		},
		{
			Name: "causal_softmax", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 20, InPlace: true,
			Operands: func(d *draw) []operand {
				position = d.Size(200) - 1
				return []operand{d.Normal(d.Size(200), d.Size(40), d.Size(3), d.Size(3))}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return causalSoftMax(c, x[0], nil, 3, int(position))
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.SoftMaxExt(refmath.DiagMaskInf(x[0], position), refmath.Tensor{}, refmath.Tensor{}, 3, 0)
			},
		},
		{
			Name: "causal_softmax_some", Layouts: optest.ContiguousOnly, Bound: optest.VectorExp, Runs: 20, InPlace: true,
			Operands: func(d *draw) []operand {
				queries, batch := d.Size(40), d.Size(3)
				position = d.Size(200) - 1
				n := position + queries
				first := operand{Type: ggml.I32, Values: refmath.New(n, batch)}
				for sample := range batch {
					copy(first.Values.Data[sample*n:], drawVisible(d, n))
				}
				return []operand{d.Normal(n, queries, d.Size(3), batch), first}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return causalSoftMax(c, x[0], x[1], 3, int(position))
			},
			Want: func(x refs) refmath.Tensor { return someSoftMax(x[0], x[1], refmath.Tensor{}, 0, position) },
		},
	}
}

// someSoftMax returns the softmax of 3 · x with hidden keys at −Inf, and the distances of ALiBi.
func someSoftMax(x, first, sinks refmath.Tensor, maxBias float64, position int64) refmath.Tensor {
	masked, distances := refmath.DiagMaskInf(x, position), refmath.Tensor{}
	if maxBias != 0 {
		distances = refmath.New(x.Ne[0], x.Ne[1])
		for i := range distances.Data {
			distances.Data[i] = float64(int64(i)%x.Ne[0] - position - int64(i)/x.Ne[0])
		}
	}
	for i := range masked.Data {
		key, row := int64(i)%x.Ne[0], int64(i)/x.Ne[0]
		query, sample := position+row%x.Ne[1], row/(x.Ne[1]*x.Ne[2])
		if key < min(int64(first.Data[sample*first.Ne[0]+query]), query) {
			masked.Data[i] = math.Inf(-1)
		}
	}
	return refmath.SoftMaxExt(masked, distances, sinks, 3, maxBias)
}

// Scores far apart, and NaN.
func TestCausalSoftMaxExtremes(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	w := optest.NewWorkbench(t)
	for _, k := range []struct{ scores, want []float32 }{
		{[]float32{-1e30, 1e30, 5, 9}, []float32{0, 1, 0, 0}},
		{[]float32{-inf, -inf, 2, 9}, []float32{0, 0, 1, 0}},
		{[]float32{3e38, 3e38, -3e38, 9}, []float32{0.5, 0.5, 0, 0}},
		{[]float32{1, nan, 2, 9}, []float32{nan, nan, nan, 0}},
		{[]float32{1, inf, 2, 9}, []float32{nan, nan, nan, 0}},
	} {
		y := causalSoftMax(w.Context, w.Leaf(k.scores...), nil, 1, 2).SetOutput()
		w.Compute(w.NewGraph(y))
		got := need.Value(ggml.Read[float32](y))(t)
		for i, want := range k.want {
			if want != want {
				require.True(t, got[i] != got[i], "%v → %v", k.scores, got)
				continue
			}
			require.InDelta(t, want, got[i], 1e-6, "%v → %v", k.scores, got)
		}
	}
}

func TestCausalSoftMaxErrors(t *testing.T) {
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"a has type f16; it must have f32": func(c *ggml.Context) { causalSoftMax(c, c.NewTensor(ggml.F16, 4, 4), nil, 1, 0) },
		"must be contiguous": func(c *ggml.Context) {
			causalSoftMax(c, c.Transpose(c.NewTensor(ggml.F32, 4, 3)), nil, 1, 0)
		},
		"the scale is 0; it must be above 0": func(c *ggml.Context) { causalSoftMax(c, c.NewTensor(ggml.F32, 4, 4), nil, 0, 0) },
		"FirstVisible has 5 queries, and the last one is at position 5": func(c *ggml.Context) {
			causalSoftMax(c, c.NewTensor(ggml.F32, 4, 4), c.NewTensor(ggml.I32, 5), 1, 2)
		},
		"FirstVisible must be [n, batch] of Q, [6 2 1 1]": func(c *ggml.Context) {
			causalSoftMax(c, c.NewTensor(ggml.F32, 4, 4, 1, 2), c.NewTensor(ggml.I32, 6), 1, 2)
		},
		"the scale is NaN": func(c *ggml.Context) {
			causalSoftMax(c, c.NewTensor(ggml.F32, 4, 4), nil, float32(math.NaN()), 0)
		},
		"the first query is at position -1; it mu": func(c *ggml.Context) { causalSoftMax(c, c.NewTensor(ggml.F32, 4, 4), nil, 1, -1) },
	})
}
