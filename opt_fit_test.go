package ggml_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

func TestFitFindsOptimum(t *testing.T) {
	g := newRegression(40)
	r := newRegressor(t, g, 4, 2)
	c := ggml.NewContext()
	defer c.Close()
	var trained, evaluated, last int
	var loss float64
	err := ggml.Fit(t.Context(), r.dataset, ggml.FitOptions{
		Inputs: r.x, Outputs: r.outputs(c, r.x),
		Loss: ggml.LossMeanSquaredError, Epochs: 150, LogicalBatch: 8, Validation: 0.2,
		Params: func(epoch int, _ int64) ggml.OptimizerParams {
			p := ggml.DefaultOptimizerParams()
			p.AdamW.LearningRate = float32(0.1 * math.Pow(0.95, float64(epoch)))
			return p
		},
		Progress: func(p ggml.FitProgress) {
			last = p.Epoch
			if p.Train {
				trained++
				require.EqualValues(t, 8, p.Batches)
				return
			}
			evaluated++
			require.EqualValues(t, 2, p.Batches)
			loss, _ = p.Result.Loss()
		},
	}, r.backend)
	require.NoError(t, err)
	require.Equal(t, []int{150 * 8, 150 * 2, 150}, []int{trained, evaluated, last})
	require.Less(t, loss, 1e-6)
	require.InDeltaSlice(t, regressionTruth[:], r.weights(t), 1e-3)
}

func TestFitCancelled(t *testing.T) {
	g := newRegression(16)
	r := newRegressor(t, g, 4, 1)
	c := ggml.NewContext()
	defer c.Close()
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	batches := 0
	err := ggml.Fit(ctx, r.dataset, ggml.FitOptions{
		Inputs: r.x, Outputs: r.outputs(c, r.x),
		Loss: ggml.LossMeanSquaredError, Epochs: 10,
		Progress: func(ggml.FitProgress) {
			if batches++; batches == 6 {
				cancel(enough)
			}
		},
	}, r.backend)
	require.ErrorIs(t, err, enough)
	require.Equal(t, 6, batches)
	require.NotContains(t, r.weights(t), math.NaN())
}

// Errors name a beginner's omissions, with the remedy.
func TestFitErrors(t *testing.T) {
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()
	rows := make([][]float32, 10)
	labels := make([][]float32, 10)
	for i := range rows {
		rows[i], labels[i] = []float32{float32(i), 1}, []float32{float32(i)}
	}
	d := need.Value(ggml.NewDatasetOf(rows, labels))(t)
	defer d.Close()
	fit := func(batch int64, options ggml.FitOptions) error {
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.F32, 2, batch)
		w := c.NewTensor(ggml.F32, 2).SetParam()
		buffers := need.Value(c.Allocate(backend.BufferType()))(t)
		defer buffers.Close()
		options.Inputs, options.Outputs = x, c.MulMat(w, x)
		return ggml.Fit(t.Context(), d, options, backend)
	}
	mse := ggml.FitOptions{Epochs: 1, Loss: ggml.LossMeanSquaredError}
	require.NoError(t, fit(5, mse))
	require.ErrorContains(t, fit(5, ggml.FitOptions{Epochs: 1}), `the loss "mean" ignores; set Loss to LossMeanSquaredError`)
	require.ErrorContains(t, fit(4, mse), "leave out 2 samples, or make ne1 of the inputs, which is the batch, a divisor")
	require.ErrorContains(t, fit(11, mse), "a step takes 11 samples; the data set has only 10: make ne1 of the inputs")
}

// Fit returns the error of the op that failed, with its line.
func TestFitNamesTheFailedOp(t *testing.T) {
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()
	d := need.Value(ggml.NewDatasetOf([][]float32{{1, 2}}, [][]float32{{3}}))(t)
	defer d.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 1)
	y := c.MulMat(c.NewTensor(ggml.F32, 3).SetParam(), x)
	built := c.Err()
	require.ErrorContains(t, built, "mul_mat")
	err := ggml.Fit(t.Context(), d, ggml.FitOptions{Inputs: x, Outputs: y, Epochs: 1, Loss: ggml.LossMeanSquaredError}, backend)
	require.Equal(t, built, err)
}
