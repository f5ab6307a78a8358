package ggml_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// A regression is y = W·x + b of 3 inputs and 2 outputs, on samples of a known
// W and b, with a float64 reference of its training.
type regression struct {
	x, y []float64 // n samples of 3 and 2 numbers
	w    [8]float64
	m, v [8]float64
	step float64
}

var regressionTruth = [8]float64{1, -2, 0.5, 0.25, 3, -1, 0.7, -0.3}

func newRegression(n int) *regression {
	r := rand.New(rand.NewPCG(1, 2))
	var g regression
	for range n {
		x := [3]float64{float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64())), float64(float32(r.NormFloat64()))}
		for o := range 2 {
			y := regressionTruth[6+o]
			for i := range 3 {
				y += regressionTruth[3*o+i] * x[i]
			}
			g.y = append(g.y, float64(float32(y)))
		}
		g.x = append(g.x, x[:]...)
	}
	for i := range g.w {
		g.w[i] = float64(float32(0.1 * float64(i)))
	}
	return &g
}

// grad returns the mean squared error and its gradient on samples from … to−1.
func (g *regression) grad(from, to int) (loss float64, grad [8]float64) {
	n := float64(2 * (to - from))
	for s := from; s < to; s++ {
		for o := range 2 {
			e := g.w[6+o] - g.y[2*s+o]
			for i := range 3 {
				e += g.w[3*o+i] * g.x[3*s+i]
			}
			loss += e * e / n
			for i := range 3 {
				grad[3*o+i] += 2 * e * g.x[3*s+i] / n
			}
			grad[6+o] += 2 * e / n
		}
	}
	return loss, grad
}

func (g *regression) adamW(grad [8]float64, p ggml.AdamWParams) {
	g.step++
	b1, b2, rate := float64(p.Beta1), float64(p.Beta2), float64(p.LearningRate)
	for i := range g.w {
		g.m[i] = b1*g.m[i] + (1-b1)*grad[i]
		g.v[i] = b2*g.v[i] + (1-b2)*grad[i]*grad[i]
		mh, vh := g.m[i]/(1-math.Pow(b1, g.step)), g.v[i]/(1-math.Pow(b2, g.step))
		g.w[i] = g.w[i]*(1-rate*float64(p.WeightDecay)) - rate*mh/(math.Sqrt(vh)+float64(p.Epsilon))
	}
}

func (g *regression) sgd(grad [8]float64, p ggml.SGDParams) {
	for i := range g.w {
		g.w[i] = g.w[i]*(1-float64(p.LearningRate*p.WeightDecay)) - float64(p.LearningRate)*grad[i]
	}
}

// A regressor is the regression in tensors.
type regressor struct {
	backend *ggml.Backend
	c       *ggml.Context // the parameters and the static inputs
	buffers *ggml.Buffers
	w, b, x *ggml.Tensor
	dataset *ggml.Dataset
}

func newRegressor(t *testing.T, g *regression, batch, shard int64) *regressor {
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	r := &regressor{backend: backend, c: ggml.NewContext()}
	t.Cleanup(func() { r.close() })
	r.w = r.c.NewTensor(ggml.F32, 3, 2).SetParam().SetName("w")
	r.b = r.c.NewTensor(ggml.F32, 2).SetParam().SetName("b")
	r.x = r.c.NewTensor(ggml.F32, 3, batch).SetName("x")
	r.buffers = need.Value(r.c.Allocate(backend.BufferType()))(t)
	r.dataset = need.Value(ggml.NewDataset(ggml.DatasetOptions{Samples: int64(len(g.x) / 3), SampleSize: 3, LabelSize: 2, Shard: shard}))(t)
	require.NoError(t, ggml.Write(r.dataset.Data(), float32s(g.x)))
	require.NoError(t, ggml.Write(r.dataset.Labels(), float32s(g.y)))
	r.setWeights(t, g.w)
	return r
}

func (r *regressor) close() {
	r.dataset.Close()
	r.buffers.Close()
	r.c.Close()
	r.backend.Close()
}

func float32s(s []float64) []float32 {
	out := make([]float32, len(s))
	for i, x := range s {
		out[i] = float32(x)
	}
	return out
}

func (r *regressor) setWeights(t *testing.T, w [8]float64) {
	require.NoError(t, ggml.Write(r.w, float32s(w[:6])))
	require.NoError(t, ggml.Write(r.b, float32s(w[6:])))
}

func (r *regressor) weights(t *testing.T) []float64 {
	w := need.Value(ggml.Read[float32](r.w))(t)
	b := need.Value(ggml.Read[float32](r.b))(t)
	var all []float64
	for _, x := range append(w, b...) {
		all = append(all, float64(x))
	}
	return all
}

func (r *regressor) outputs(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
	return c.Add(c.MulMat(r.w, x), r.b).SetName("y")
}

func (r *regressor) static(t *testing.T, o ggml.OptimizerOptions) *ggml.Optimizer {
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	o.Inputs, o.Outputs = r.x, r.outputs(c, r.x)
	opt := need.Value(ggml.NewOptimizer(o, r.backend))(t)
	t.Cleanup(func() { opt.Close() })
	return opt
}

func newDynamic(t *testing.T, r *regressor, o ggml.OptimizerOptions) *ggml.Optimizer {
	opt := need.Value(ggml.NewOptimizer(o, r.backend))(t)
	t.Cleanup(func() { opt.Close() })
	return opt
}

// evaluate runs one evaluation, with a new graph if the optimizer is dynamic.
func evaluate(t *testing.T, r *regressor, o *ggml.Optimizer, backward bool, batch int64, result *ggml.OptResult) {
	if !o.IsStatic() {
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.F32, r.x.Shape()...)
		y := r.outputs(c, x)
		require.NoError(t, o.Prepare(c.NewGraph(y), x, y))
	}
	require.NoError(t, o.Allocate(backward))
	require.NoError(t, r.dataset.CopyBatch(o.Inputs(), o.Labels(), batch))
	require.NoError(t, o.Eval(result))
}

func newResult(t *testing.T) *ggml.OptResult {
	r := need.Value(ggml.NewOptResult())(t)
	t.Cleanup(func() { r.Close() })
	return r
}

var testAdamW = ggml.AdamWParams{LearningRate: 0.05, Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, WeightDecay: 0.1}

func adamWOptions(period int) ggml.OptimizerOptions {
	return ggml.OptimizerOptions{
		Loss: ggml.LossMeanSquaredError, Period: period,
		Params: ggml.ConstantParams(ggml.OptimizerParams{AdamW: testAdamW}),
	}
}
