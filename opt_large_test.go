package ggml_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// deep returns the regression's outputs after depth more nodes.
func (r *regressor) deep(c *ggml.Context, depth int) *ggml.Tensor {
	y := r.outputs(c, r.x)
	for range depth {
		y = c.Scale(y, 1)
	}
	return y
}

// A static graph may have any number of nodes: one larger than ggml keeps trains like a small one.
func TestOptimizerLargeGraph(t *testing.T) {
	need.Time(t, "a graph of a hundred thousand nodes")
	const n, steps = 16, 4
	for _, depth := range []int{600, 700, 1020, 5000} { // with gradients about three times as many
		for _, period := range []int{1, 4} {
			for _, evals := range []int{0, 3} {
				t.Run(fmt.Sprint(depth, period, evals), func(t *testing.T) {
					g := newRegression(n)
					r := newRegressor(t, g, n/int64(period), 1)
					c := ggml.NewContext()
					defer c.Close()
					options := adamWOptions(period)
					options.Inputs, options.Outputs = r.x, r.deep(c, depth)
					o := need.Value(ggml.NewOptimizer(options, r.backend))(t)
					defer o.Close()
					require.True(t, o.IsStatic())
					require.True(t, o.Inputs().Is(r.x) && o.Outputs().Is(options.Outputs))
					require.ErrorContains(t, o.Prepare(c.NewGraph(options.Outputs), r.x, options.Outputs), "static graph")
					result := newResult(t)
					for range steps {
						require.NoError(t, result.Reset())
						for i := range period {
							evaluate(t, r, o, true, int64(i), result)
						}
						for range evals {
							evaluate(t, r, o, false, 0, nil)
						}
						want, grad := g.grad(0, n)
						got, _ := result.Loss()
						require.InDelta(t, want, got, 1e-5*want)
						g.adamW(grad, testAdamW)
						require.InDeltaSlice(t, g.w[:], r.weights(t), 1e-5)
					}
					require.EqualValues(t, steps, o.Iteration())
					if period == 1 {
						require.NoError(t, o.Reset(true))
						require.Zero(t, o.Iteration())
					}
				})
			}
		}
	}
}

// Epoch and Fit take such a graph, too.
func TestFitLargeGraph(t *testing.T) {
	weights := func(depth int) []float64 {
		g := newRegression(16)
		r := newRegressor(t, g, 4, 1)
		c := ggml.NewContext()
		defer c.Close()
		evaluated := 0
		require.NoError(t, ggml.Fit(t.Context(), r.dataset, ggml.FitOptions{
			Inputs: r.x, Outputs: r.deep(c, depth),
			Loss: ggml.LossMeanSquaredError, Epochs: 3, LogicalBatch: 8, Validation: 0.5, LearningRate: 0.05,
			Progress: func(p ggml.FitProgress) {
				if !p.Train {
					evaluated++
					loss, _ := p.Result.Loss()
					require.False(t, math.IsNaN(loss))
				}
			},
		}, r.backend))
		require.Equal(t, 3*2, evaluated)
		return r.weights(t)
	}
	require.InDeltaSlice(t, weights(0), weights(3000), 1e-6)
}

// A graph that does not fit into memory is refused when made, not at its first use.
func TestOptimizerHugeGraph(t *testing.T) {
	g := newRegression(4)
	r := newRegressor(t, g, 4, 1)
	c := ggml.NewContext()
	defer c.Close()
	o, err := ggml.NewOptimizer(ggml.OptimizerOptions{Loss: ggml.LossMeanSquaredError, Inputs: r.x, Outputs: r.deep(c, 50_000)}, r.backend)
	if err != nil {
		require.ErrorIs(t, err, ggml.ErrOutOfMemory)
		return
	}
	defer o.Close()
	evaluate(t, r, o, true, 0, nil)
}
