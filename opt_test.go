package ggml_test

import (
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// ggml accumulates gradients over all steps of a dynamic graph, and of a static graph after a
// forward pass; here neither happens.
func TestOptimizerTrains(t *testing.T) {
	const n, steps = 16, 6
	for name, run := range map[string]struct {
		batch  int64
		period int
		eval   int // forward passes after each step
		static bool
	}{
		"static":                            {batch: n, period: 1, static: true},
		"static, accumulating":              {batch: n / 4, period: 4, static: true},
		"static, evaluating":                {batch: n, period: 1, static: true, eval: 1},
		"static, accumulating, evaluating":  {batch: n / 4, period: 4, static: true, eval: 3},
		"dynamic":                           {batch: n, period: 1},
		"dynamic, accumulating":             {batch: n / 2, period: 2},
		"dynamic, evaluating":               {batch: n, period: 1, eval: 1},
		"dynamic, accumulating, evaluating": {batch: n / 2, period: 2, eval: 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRegression(n)
			r := newRegressor(t, g, run.batch, 1)
			var o *ggml.Optimizer
			if run.static {
				o = r.static(t, adamWOptions(run.period))
			} else {
				o = newDynamic(t, r, adamWOptions(run.period))
			}
			require.Equal(t, run.static, o.IsStatic())
			result := newResult(t)
			for step := range steps {
				require.NoError(t, result.Reset())
				for i := range run.period {
					evaluate(t, r, o, true, int64(i), result)
				}
				for range run.eval {
					evaluate(t, r, o, false, 0, nil)
				}
				want, grad := g.grad(0, n)
				got, _ := result.Loss()
				require.InDelta(t, want, got, 1e-5*want, "loss of step %d", step)
				require.EqualValues(t, n, result.NumSamples())
				g.adamW(grad, testAdamW)
				require.InDeltaSlice(t, g.w[:], r.weights(t), 1e-5)
				require.EqualValues(t, step+1, o.Iteration())
			}
		})
	}
}

func TestOptimizerSGD(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 8, 8)
	p := ggml.SGDParams{WeightDecay: 0.05}
	var iterations []int64
	o := r.static(t, ggml.OptimizerOptions{
		Loss: ggml.LossMeanSquaredError, Optimizer: ggml.OptimizerSGD,
		Params: func(i int64) ggml.OptimizerParams {
			iterations = append(iterations, i)
			return ggml.OptimizerParams{SGD: ggml.SGDParams{LearningRate: 0.1 / float32(i), WeightDecay: 0.05}}
		},
	})
	require.Equal(t, ggml.OptimizerSGD, o.Type())
	require.Equal(t, "sgd", o.Type().String())
	for i := range 5 {
		evaluate(t, r, o, true, 0, nil)
		_, grad := g.grad(0, 8)
		p.LearningRate = 0.1 / float32(i+1)
		g.sgd(grad, p)
		require.InDeltaSlice(t, g.w[:], r.weights(t), 1e-5)
	}
	require.Equal(t, []int64{1, 2, 3, 4, 5}, iterations)
}

func TestOptimizerReset(t *testing.T) {
	g := newRegression(8)
	for _, static := range []bool{true, false} {
		r := newRegressor(t, g, 8, 1)
		o := newDynamic(t, r, adamWOptions(1))
		if static {
			o = r.static(t, adamWOptions(1))
		}
		train := func() []float64 {
			r.setWeights(t, g.w)
			for range 3 {
				evaluate(t, r, o, true, 0, nil)
			}
			return r.weights(t)
		}
		first := train()
		require.NotEqual(t, first, train(), "the moments go on")
		require.NoError(t, o.Reset(true))
		require.Zero(t, o.Iteration())
		require.Equal(t, first, train())
		require.NoError(t, o.Reset(false))
	}
}

// The loss tensor of an accumulating optimizer is divided by the period; the
// result is not.
func TestOptimizerPeriodScalesLoss(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	o := r.static(t, adamWOptions(2))
	result := newResult(t)
	evaluate(t, r, o, true, 0, result)
	want, grad := g.grad(0, 4)
	loss := need.Value(ggml.Read[float32](o.Loss()))(t)
	require.InEpsilon(t, want/2, float64(loss[0]), 1e-5)
	got, unc := result.Loss()
	require.InEpsilon(t, want, got, 1e-5)
	require.True(t, math.IsNaN(unc))
	acc := need.Value(ggml.Read[float32](optest.Found(o.GradAcc(r.b))))(t)
	require.InDelta(t, grad[6]/2, float64(acc[0]), 1e-5)

	evaluate(t, r, o, true, 1, result)
	second, _ := g.grad(4, 8)
	got, unc = result.Loss()
	require.InEpsilon(t, (want+second)/2, got, 1e-5)
	require.InEpsilon(t, math.Abs(want-second)/2, unc, 1e-4)
}

func TestOptimizerSumAndMean(t *testing.T) {
	for _, loss := range []ggml.LossType{ggml.LossMean, ggml.LossSum} {
		g := newRegression(4)
		r := newRegressor(t, g, 4, 1)
		c := ggml.NewContext()
		defer c.Close()
		y := c.Sqr(r.outputs(c, r.x))
		o := need.Value(ggml.NewOptimizer(ggml.OptimizerOptions{
			Loss: loss, Optimizer: ggml.OptimizerSGD, Inputs: r.x, Outputs: y,
			Params: ggml.ConstantParams(ggml.OptimizerParams{SGD: ggml.SGDParams{LearningRate: 0.01}}),
		}, r.backend))(t)
		defer o.Close()
		require.Nil(t, o.Labels())
		require.Nil(t, o.Pred())
		require.Nil(t, o.NumCorrect())
		clear(g.y) // the loss is then the loss of zeros
		want, grad := g.grad(0, 4)
		if loss == ggml.LossSum {
			want *= 8
			for i := range grad {
				grad[i] *= 8
			}
		}
		result := newResult(t)
		require.NoError(t, o.Allocate(true))
		require.NoError(t, ggml.Write(r.x, float32s(g.x)))
		require.NoError(t, o.Eval(result))
		got, _ := result.Loss()
		require.InEpsilon(t, want, got, 1e-5, "%v", loss)
		g.sgd(grad, ggml.SGDParams{LearningRate: 0.01})
		require.InDeltaSlice(t, g.w[:], r.weights(t), 1e-5)
		accuracy, unc := result.Accuracy()
		require.True(t, math.IsNaN(accuracy) && math.IsNaN(unc))
		require.Nil(t, result.Pred())
	}
}

func TestOptimizerClassifies(t *testing.T) {
	// Two classes, separated by the sign of the single input.
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.F32, 1, 2).SetParam()
	x := c.NewTensor(ggml.F32, 1, 4)
	m := need.Value(c.Allocate(backend.BufferType()))(t)
	defer m.Close()
	require.NoError(t, ggml.Write(w, []float32{2, -2}))
	d := need.Value(ggml.NewDataset(ggml.DatasetOptions{Samples: 8, SampleSize: 1, LabelSize: 2}))(t)
	defer d.Close()
	require.NoError(t, ggml.Write(d.Data(), []float32{1, -1, 2, -2, 3, -3, 4, -4}))
	// The last label is wrong.
	require.NoError(t, ggml.Write(d.Labels(), []float32{1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0}))
	o := need.Value(ggml.NewOptimizer(ggml.OptimizerOptions{Loss: ggml.LossCrossEntropy, Build: ggml.BuildForward, Inputs: x, Outputs: c.MulMat(w, x)}, backend))(t)
	defer o.Close()
	result := newResult(t)
	require.NoError(t, o.Epoch(t.Context(), d, ggml.EpochOptions{Eval: result}))
	require.Equal(t, []int32{0, 1, 0, 1, 0, 1, 0, 1}, result.Pred())
	accuracy, unc := result.Accuracy()
	require.Equal(t, 7.0/8, accuracy)
	require.InDelta(t, math.Sqrt(7.0/8*(1.0/8)/7), unc, 1e-12)
	want := 0.0
	for _, z := range []float64{4, 4, 8, 8, 12, 12, 16, -16} {
		want += math.Log1p(math.Exp(-z)) / 8
	}
	loss, _ := result.Loss()
	require.InDelta(t, want, loss, 1e-5)
	pred := need.Value(ggml.Read[int32](o.Pred()))(t)
	require.Equal(t, []int32{0, 1, 0, 1}, pred)
	right := need.Value(ggml.Read[int64](o.NumCorrect()))(t)
	require.Equal(t, []int64{3}, right)
	require.False(t, optest.Finds(o.GradAcc(w)))
	require.ErrorContains(t, o.Allocate(true), "BuildOptimizer")
	require.ErrorContains(t, o.Reset(true), "nothing to reset")
	require.ErrorContains(t, o.Epoch(t.Context(), d, ggml.EpochOptions{TrainSamples: -1}), "TrainSamples must be 0")
}

func TestOptimizersLeakNothing(t *testing.T) {
	g := newRegression(8)
	r := newRegressor(t, g, 4, 1)
	before := ggml.OpenObjects()
	for _, static := range []bool{true, false} {
		c := ggml.NewContext()
		o := ggml.OptimizerOptions{Loss: ggml.LossMeanSquaredError}
		if static {
			o.Inputs, o.Outputs = r.x, r.outputs(c, r.x)
		}
		opt := need.Value(ggml.NewOptimizer(o, r.backend))(t)
		for range 3 {
			evaluate(t, r, opt, true, 0, nil)
		}
		loss := opt.Loss()
		c.Close()
		opt.Close()
		opt.Close()
		_, err := ggml.Read[float32](loss)
		require.ErrorIs(t, err, ggml.ErrClosed)
		require.Equal(t, before, ggml.OpenObjects())
	}
	runtime.KeepAlive(r)
}

// The gradient of w is a transposed view, which a step would read in the wrong order; the
// accumulated gradient has the order of w.
func TestOptimizerAccumulatesTransposed(t *testing.T) {
	g := newRegression(4)
	r := newRegressor(t, g, 4, 1)
	require.NoError(t, ggml.Write(r.w, []float32{1, 2, 3, 4, 5, 6}))
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 2, 4)
	m := need.Value(c.Allocate(r.backend.BufferType()))(t)
	defer m.Close()
	y := c.MulMat(c.Cont(c.Transpose(r.w)), x)
	o := need.Value(ggml.NewOptimizer(ggml.OptimizerOptions{
		Loss: ggml.LossSum, Optimizer: ggml.OptimizerSGD, Period: 2, Inputs: x, Outputs: y,
		Params: ggml.ConstantParams(ggml.OptimizerParams{SGD: ggml.SGDParams{LearningRate: 0.01}}),
	}, r.backend))(t)
	defer o.Close()
	for range 2 {
		require.NoError(t, o.Allocate(true))
		require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4, 5, 6, 7, 8}))
		require.NoError(t, o.Eval(nil))
	}
	// The derivative is 16 for the first row of w and 20 for the second, twice.
	require.InDeltaSlice(t, []float64{0.68, 1.68, 2.68, 3.6, 4.6, 5.6}, r.weights(t)[:6], 1e-5)
}

// The report includes the moments, two numbers for each of the 8 parameters, and the memory of the
// graph, until the optimizer is closed.
func TestOptimizerInMemoryReport(t *testing.T) {
	r := newRegressor(t, newRegression(16), 16, 1)
	for name, make := range map[string]func() *ggml.Optimizer{
		"static":  func() *ggml.Optimizer { return r.static(t, adamWOptions(1)) },
		"dynamic": func() *ggml.Optimizer { return newDynamic(t, r, adamWOptions(1)) },
	} {
		before := reportOf(t)
		o := make()
		evaluate(t, r, o, true, 0, nil)
		evaluate(t, r, o, true, 0, nil)
		during := reportOf(t)
		require.GreaterOrEqual(t, during.Other-before.Other, int64(2*4*8), name)
		require.Less(t, during.Other-before.Other, int64(1<<16), name)
		require.Positive(t, during.Compute-before.Compute, name)
		o.Close()
		after := reportOf(t)
		require.Equal(t, before.Other, after.Other, name)
		require.Equal(t, before.Compute, after.Compute, name)
	}
}
