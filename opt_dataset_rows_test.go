package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestDatasetOf(t *testing.T) {
	d, err := ggml.NewDatasetOf([][]float32{{1, 2}, {3, 4}, {5, 6}}, [][]float32{{7}, {8}, {9}})
	require.NoError(t, err)
	defer d.Close()
	require.EqualValues(t, 3, d.NumData())
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, numbers(t, d.Data()))
	require.Equal(t, []float32{7, 8, 9}, numbers(t, d.Labels()))

	bare, err := ggml.NewDatasetOf([][]float32{{1, 2}}, nil)
	require.NoError(t, err)
	defer bare.Close()
	require.Nil(t, bare.Labels())
}

func TestDatasetOfRefuses(t *testing.T) {
	for want, rows := range map[string][2][][]float32{
		"there are no samples":                         {},
		"there are 2 samples and 1 labels":             {{{1}, {2}}, {{1}}},
		"there are 1 samples and 0 labels":             {{{1}}, {}},
		"sample 1 has 2 elements, the first has 1":     {{{1}, {2, 3}}, nil},
		"sample 0 has 0 elements, the first has 0":     {{{}}, nil},
		"label 1 has 0 elements, the first has 1; all": {{{1}, {2}}, {{1}, {}}},
	} {
		_, err := ggml.NewDatasetOf(rows[0], rows[1])
		require.ErrorContains(t, err, want)
	}
}

func TestParams(t *testing.T) {
	c := ggml.NewContext()
	c.NewTensor(ggml.F32, 1).SetName("x")
	w := c.NewTensor(ggml.F32, 2).SetName("w").SetParam()
	b := c.NewTensor(ggml.F32, 3).SetName("b").SetParam()
	c.Add(b, b)
	var found []*ggml.Tensor
	for p := range c.Params() {
		found = append(found, p)
	}
	require.Len(t, found, 2)
	require.True(t, found[0].Is(w) && found[1].Is(b))
	for p := range c.Params() {
		require.True(t, p.Is(w))
		break
	}
	c.Close()
	for range c.Params() {
		require.Fail(t, "a closed context has no parameters")
	}
}

// What a newcomer forgets is named with the remedy.
func TestFitSaysWhatToDo(t *testing.T) {
	backend, err := ggml.NewCPUBackend(1)
	require.NoError(t, err)
	defer backend.Close()
	rows := make([][]float32, 10)
	labels := make([][]float32, 10)
	for i := range rows {
		rows[i], labels[i] = []float32{float32(i), 1}, []float32{float32(i)}
	}
	d, err := ggml.NewDatasetOf(rows, labels)
	require.NoError(t, err)
	defer d.Close()
	fit := func(batch int64, options ggml.FitOptions) error {
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.F32, 2, batch)
		w := c.NewTensor(ggml.F32, 2).SetParam()
		buffers, err := c.Allocate(backend.BufferType())
		require.NoError(t, err)
		defer buffers.Close()
		return ggml.Fit(t.Context(), d, x, c.MulMat(w, x), options, backend)
	}
	mse := ggml.FitOptions{Epochs: 1, Loss: ggml.LossMeanSquaredError}
	require.NoError(t, fit(5, mse))
	require.ErrorContains(t, fit(5, ggml.FitOptions{Epochs: 1}), `the loss "mean" takes no notice of; set Loss to LossMeanSquaredError`)
	require.ErrorContains(t, fit(4, mse), "leave out 2 samples, or make ne1 of the inputs, which is the batch, a divisor")
	require.ErrorContains(t, fit(11, mse), "a step takes 11 samples; the data set has only 10: make ne1 of the inputs")
}

// An op that failed is what Fit returns, with the line of the op.
func TestFitNamesTheFailedOp(t *testing.T) {
	backend, err := ggml.NewCPUBackend(1)
	require.NoError(t, err)
	defer backend.Close()
	d, err := ggml.NewDatasetOf([][]float32{{1, 2}}, [][]float32{{3}})
	require.NoError(t, err)
	defer d.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 1)
	y := c.MulMat(c.NewTensor(ggml.F32, 3).SetParam(), x)
	built := c.Err()
	require.ErrorContains(t, built, "mul_mat")
	err = ggml.Fit(t.Context(), d, x, y, ggml.FitOptions{Epochs: 1, Loss: ggml.LossMeanSquaredError}, backend)
	require.Equal(t, built, err)
}
