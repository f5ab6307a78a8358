package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestOptimizerOptionErrors(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	c := ggml.NewContext()
	defer c.Close()
	y := r.outputs(c, r.x)
	unallocated := c.NewTensor(ggml.F32, 3, 4)
	half := c.Cast(r.w, ggml.F16)
	none := c.NewTensor(ggml.F32, 3)
	none.SetName("frozen")
	closed := ggml.NewContext()
	gone := closed.NewTensor(ggml.F32, 3, 4)
	closed.Close()
	for name, k := range map[string]struct {
		o    ggml.OptimizerOptions
		want string
	}{
		"loss":             {ggml.OptimizerOptions{Loss: 9}, "there is no loss 9"},
		"build":            {ggml.OptimizerOptions{Build: 15}, "the build type is 15"},
		"gradients":        {ggml.OptimizerOptions{Build: ggml.BuildGradients}, "cannot build gradients without steps; use BuildOptimizer, or Graph.Backward"},
		"optimizer":        {ggml.OptimizerOptions{Optimizer: 2}, "there is no optimizer 2"},
		"period":           {ggml.OptimizerOptions{Period: -1}, "the period is -1"},
		"graph size":       {ggml.OptimizerOptions{GraphSize: -1}, "the graph size is -1"},
		"no outputs":       {ggml.OptimizerOptions{Inputs: r.x}, "is nil; a static graph needs both"},
		"no inputs":        {ggml.OptimizerOptions{Outputs: y}, "is nil; a static graph needs both"},
		"inputs unused":    {ggml.OptimizerOptions{Inputs: r.dataset.Data(), Outputs: y}, "do not depend on the inputs"},
		"unallocated":      {ggml.OptimizerOptions{Inputs: unallocated, Outputs: r.outputs(c, unallocated)}, "call Allocate"},
		"closed":           {ggml.OptimizerOptions{Inputs: gone, Outputs: y}, "closed"},
		"type":             {ggml.OptimizerOptions{Inputs: r.x, Outputs: half}, "must have type f32"},
		"not contiguous":   {ggml.OptimizerOptions{Inputs: r.x, Outputs: c.Transpose(y)}, "contiguous"},
		"three dimensions": {ggml.OptimizerOptions{Loss: ggml.LossCrossEntropy, Inputs: r.x, Outputs: c.Reshape(y, 2, 2, 2)}, "[classes, samples]"},
		"no parameters":    {ggml.OptimizerOptions{Inputs: r.x, Outputs: c.Sqr(r.x)}, "call SetParam"},
		"no backward":      {ggml.OptimizerOptions{Inputs: r.x, Outputs: c.Tanh(y)}, "has no backward"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := ggml.NewOptimizer(k.o, r.backend)
			require.Error(t, err)
			require.ErrorContains(t, err, k.want)
			require.Nil(t, o)
		})
	}
	_, err := ggml.NewOptimizer(ggml.OptimizerOptions{Inputs: r.x, Outputs: y})
	require.ErrorContains(t, err, "no backend")
	_, err = ggml.NewOptimizer(ggml.OptimizerOptions{Inputs: r.x, Outputs: y}, nil)
	require.ErrorContains(t, err, "nil")
}

func TestOptimizerParameterErrors(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	c := ggml.NewContext()
	defer c.Close()
	half := c.NewTensor(ggml.F16, 3, 2).SetParam()
	square := c.NewTensor(ggml.F32, 3, 3).SetParam()
	plain := c.NewTensor(ggml.F32, 3, 3)
	m := need.Value(c.Allocate(r.backend.BufferType()))(t)
	defer m.Close()
	make := func(y *ggml.Tensor) error {
		_, err := ggml.NewOptimizer(ggml.OptimizerOptions{Inputs: r.x, Outputs: y}, r.backend)
		return err
	}
	require.ErrorContains(t, make(c.MulMat(half, r.x)), "of type f32")
	require.ErrorContains(t, make(c.MulMat(c.Cont(c.Transpose(square)), r.x)), "store the parameter in the other order")
	sum := c.Add(square, plain)
	require.ErrorContains(t, make(c.MulMat(c.Cont(c.Transpose(sum)), r.x)), "store the parameter in the other order")
	y := c.Sum(r.outputs(c, r.x)).SetLoss()
	require.ErrorContains(t, make(y), "no tensor may be marked with SetLoss")
}

func TestOptimizerCallErrors(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	c := ggml.NewContext()
	defer c.Close()
	o := r.static(t, adamWOptions(2))
	require.ErrorIs(t, o.Eval(nil), ggml.ErrNotAllocated)
	require.ErrorContains(t, o.Prepare(c.NewGraph(r.outputs(c, r.x)), r.x, r.x), "static graph")
	require.NoError(t, o.Allocate(true))
	require.NoError(t, o.Allocate(true), "again the same")
	require.ErrorContains(t, o.Allocate(false), "call Eval first")
	require.NoError(t, r.dataset.CopyBatch(o.Inputs(), o.Labels(), 0))
	require.NoError(t, o.Eval(nil))
	require.ErrorContains(t, o.Allocate(false), "1 of 2 backward passes are done")
	require.ErrorContains(t, o.Epoch(t.Context(), r.dataset, ggml.EpochOptions{TrainSamples: 4}), "multiple of 2 batches")

	require.ErrorContains(t, o.Epoch(t.Context(), r.dataset, ggml.EpochOptions{TrainSamples: 9}), "has only 8")
	require.ErrorContains(t, o.Epoch(t.Context(), nil, ggml.EpochOptions{TrainSamples: 8}), "nil")
	require.False(t, optest.Finds(o.GradAcc(nil)))

	result := newResult(t)
	require.NoError(t, o.Allocate(true))
	require.NoError(t, o.Eval(result))
	other := r.static(t, adamWOptions(1))
	require.NoError(t, other.Allocate(true))
	require.ErrorContains(t, other.Eval(result), "period 2")
	result.Close()
	require.ErrorIs(t, other.Eval(result), ggml.ErrClosed)
	require.ErrorIs(t, result.Reset(), ggml.ErrClosed)
	loss, _ := result.Loss()
	require.True(t, math.IsNaN(loss))
	require.NoError(t, other.Eval(nil))

	other.Close()
	require.ErrorIs(t, other.Allocate(true), ggml.ErrClosed)
	require.ErrorIs(t, other.Eval(nil), ggml.ErrClosed)
	require.ErrorIs(t, other.Reset(true), ggml.ErrClosed)
	require.ErrorIs(t, other.Prepare(nil, nil, nil), ggml.ErrClosed)
	require.ErrorIs(t, other.Epoch(t.Context(), r.dataset, ggml.EpochOptions{TrainSamples: 8}), ggml.ErrClosed)
	require.ErrorIs(t, r.dataset.Shuffle(other, -1), ggml.ErrClosed)
	require.False(t, optest.Finds(other.GradAcc(r.w)))
}

func TestOptimizerDatasetErrors(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	o := r.static(t, adamWOptions(1))
	for name, k := range map[string]struct {
		options ggml.DatasetOptions
		want    string
	}{
		"sample size": {ggml.DatasetOptions{Samples: 8, SampleSize: 2, LabelSize: 2}, "must be [2, k]"},
		"label size":  {ggml.DatasetOptions{Samples: 8, SampleSize: 3, LabelSize: 1}, "hold 4 labels of 1 elements"},
		"no labels":   {ggml.DatasetOptions{Samples: 8, SampleSize: 3}, "has none"},
		"type":        {ggml.DatasetOptions{Samples: 8, SampleSize: 3, LabelSize: 2, DataType: ggml.F16}, "have type f16"},
		"label type":  {ggml.DatasetOptions{Samples: 8, SampleSize: 3, LabelSize: 2, LabelType: ggml.I32}, "have type i32"},
		"too few":     {ggml.DatasetOptions{Samples: 3, SampleSize: 3, LabelSize: 2}, "has only 3"},
		"uneven":      {ggml.DatasetOptions{Samples: 10, SampleSize: 3, LabelSize: 2}, "multiple of the batch, 4"},
		"large shard": {ggml.DatasetOptions{Samples: 8, SampleSize: 3, LabelSize: 2, Shard: 8}, "multiple of the shard, 8"},
	} {
		t.Run(name, func(t *testing.T) {
			d := need.Value(ggml.NewDataset(k.options))(t)
			defer d.Close()
			require.ErrorContains(t, o.Epoch(t.Context(), d, ggml.EpochOptions{TrainSamples: -1}), k.want)
		})
	}
	fit := func(f ggml.FitOptions) error {
		c := ggml.NewContext()
		defer c.Close()
		f.Inputs, f.Outputs = r.x, r.outputs(c, r.x)
		return ggml.Fit(t.Context(), r.dataset, f, r.backend)
	}
	require.ErrorContains(t, fit(ggml.FitOptions{}), "0 epochs")
	require.ErrorContains(t, fit(ggml.FitOptions{Epochs: 1, LogicalBatch: 6}), "multiple of the batch of the inputs, 4")
	require.ErrorContains(t, fit(ggml.FitOptions{Epochs: 1, LogicalBatch: 16}), "has only 8")
	require.ErrorContains(t, fit(ggml.FitOptions{Epochs: 1, Validation: 1}), "below 1")
	require.ErrorContains(t, fit(ggml.FitOptions{Epochs: 1, Validation: math.NaN()}), "below 1")
	require.ErrorContains(t, ggml.Fit(t.Context(), r.dataset, ggml.FitOptions{Epochs: 1}, r.backend), "nil")
}

func TestOptimizerRejectsParams(t *testing.T) {
	g := newRegression(4)
	r := newRegressor(t, g, 4, 1)
	var p ggml.OptimizerParams
	options := adamWOptions(1)
	options.Params = func(int64) ggml.OptimizerParams { return p }
	o := r.static(t, options)
	require.NoError(t, o.Allocate(true))
	for want, change := range map[string]func(){
		"learning rate": func() { p.AdamW.LearningRate = 0 },
		"is NaN":        func() { p.AdamW.LearningRate = float32(math.NaN()) },
		"β₁":            func() { p.AdamW.Beta1 = 1 },
		"β₂":            func() { p.AdamW.Beta2 = -0.1 },
		"ε":             func() { p.AdamW.Epsilon = -1 },
		"weight decay":  func() { p.AdamW.WeightDecay = 2 },
	} {
		p = ggml.DefaultOptimizerParams()
		change()
		require.ErrorContains(t, o.Eval(nil), want)
	}
	p = ggml.DefaultOptimizerParams()
	require.Zero(t, o.Iteration())
	require.NoError(t, o.Eval(nil))
	require.EqualValues(t, 1, o.Iteration())
}

func TestOptimizerDynamicMisuse(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	o := newDynamic(t, r, adamWOptions(1))
	require.Nil(t, o.Loss())
	require.ErrorContains(t, o.Allocate(true), "call Prepare")
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3, 4).SetInput()
	y := r.outputs(c, x)
	graph := c.NewGraph(y)
	require.ErrorContains(t, o.Prepare(nil, x, y), "nil")
	require.ErrorContains(t, o.Prepare(graph, nil, y), "nil")
	require.ErrorContains(t, o.Prepare(graph, r.x, y), "do not depend")
	require.ErrorContains(t, o.Prepare(graph, x, c.Sqr(y)), "not computed by the graph")
	require.NoError(t, o.Prepare(graph, x, y))
	require.NoError(t, o.Allocate(true))
	require.ErrorContains(t, o.Allocate(true), "call Eval first")
	require.ErrorContains(t, o.Prepare(graph, x, y), "call Eval first")
	require.ErrorContains(t, o.Reset(true), "call Reset after Eval")
	require.True(t, optest.Finds(o.GradAcc(r.w)))
	require.NoError(t, r.dataset.CopyBatch(o.Inputs(), o.Labels(), 0))
	require.NoError(t, o.Eval(nil))
	require.False(t, optest.Finds(o.GradAcc(r.w)))
	_, err := ggml.Read[float32](y)
	require.NoError(t, err, "the outputs can be read")
	old := o.Loss()
	require.NoError(t, o.Prepare(graph, x, y), "the same graph again")
	require.NoError(t, o.Allocate(false))
	_, err = ggml.Read[float32](old)
	require.ErrorIs(t, err, ggml.ErrClosed, "of a graph that is gone")
	require.NoError(t, o.Eval(nil))

	z := c.Scale(y, 2)
	require.ErrorContains(t, o.Prepare(c.NewGraph(z), x, z), "differs from the first")
	require.ErrorContains(t, o.Epoch(t.Context(), r.dataset, ggml.EpochOptions{TrainSamples: -1}), "dynamic graphs")

	// Parameters that become unallocated before Eval.
	require.NoError(t, o.Prepare(graph, x, y))
	require.NoError(t, o.Allocate(true))
	r.buffers.Close()
	require.ErrorIs(t, o.Eval(nil), ggml.ErrNotAllocated)
}

// ggml has copied the addresses: the memory stays, but is not used.
func TestOptimizerOfClosedMemory(t *testing.T) {
	g := newRegression(4)
	for _, what := range []string{"buffers", "context"} {
		r := newRegressor(t, g, 4, 1)
		o := r.static(t, adamWOptions(1))
		evaluate(t, r, o, true, 0, nil)
		require.NoError(t, o.Allocate(true))
		if what == "buffers" {
			r.buffers.Close()
		} else {
			r.c.Close()
		}
		require.ErrorIs(t, o.Eval(nil), ggml.ErrClosed)
		require.ErrorIs(t, o.Reset(true), ggml.ErrClosed)
	}
}

func TestOptimizerConcurrentClose(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	for range 5 {
		o := r.static(t, adamWOptions(1))
		done := make(chan error)
		started := make(chan struct{})
		go func() {
			var err error
			for i := 0; err == nil; i++ {
				err = o.Epoch(t.Context(), r.dataset, ggml.EpochOptions{TrainSamples: -1})
				if i == 0 {
					close(started)
				}
			}
			done <- err
		}()
		<-started
		o.Close()
		require.ErrorIs(t, <-done, ggml.ErrClosed)
	}
}
