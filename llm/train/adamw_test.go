package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
)

// single rounds to F32, as ggml's settings are.
func single(x float64) float64 { return float64(float32(x)) }

// The optimiser equals a float64 implementation over several steps: with and without clipping, with
// decay of all, some or no parameters, with changing rates, and with different rates per parameter.
func TestOptimizerAgainstReference(t *testing.T) {
	for _, s := range []AdamW{
		DefaultAdamW(),
		{Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-6, Decay: 0.1, Clip: 3},
		{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Decay: 0.3, DecayMinDims: 2},
		{Beta1: 0.9, Beta2: 0.99, Epsilon: 1e-8, Decay: 0.3, DecayMinDims: 4},
		{Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-3, Decay: 0.5},
		{Epsilon: 0.1, Clip: 0.01},
	} {
		for _, lowering := range []device.OpSet{device.Kernels, device.Stock} {
			t.Run(fmt.Sprintf("%s/%+v", lowering, s), func(t *testing.T) { testOptimizer(t, lowering, s) })
		}
	}
}

func testOptimizer(t *testing.T, lowering device.OpSet, s AdamW) {
	e := need.Value(device.New(device.Options{Threads: 2, OpSet: lowering}))(t)
	defer e.Close()
	c := ggml.NewContext()
	defer c.Close()
	shapes := [][]int64{{7, 5}, {33}, {4, 3, 2}, {5, 9}}
	factors := []float64{1, 1, 16, 0.25} // factors of the learning rate
	var params []parameter
	for i, shape := range shapes {
		params = append(params, parameter{weight: &arch.Weight{}, Tensor: c.NewTensor(ggml.F32, shape...).SetName(fmt.Sprint("p", i)), dims: len(shape), rate: factors[i]})
	}
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	o := need.Value(newOptimizer(e, s, params, batchShape{rows: 1, length: 3, longestRow: 3}))(t)
	defer o.close()
	require.NoError(t, o.clear())
	for node := range o.update.Graph.Nodes() {
		if lowering == device.Stock {
			require.Contains(t, []string{
				"none", "view", "reshape", "mul", "sqr", "sqrt", "div", "sum", "sum_rows", "add", "scale", "step", "relu", "neg", "sub", "clamp", "concat", "argmax", "get_rows", "fill", "cpy", "opt_step_adamw",
			}, node.Op())
		}
	}

	rng := rand.New(rand.NewPCG(1, 2))
	var w, m, v []refmath.Tensor
	for i, shape := range shapes {
		w = append(w, refmath.Normal(rng, 1, shape...))
		m = append(m, refmath.New(shape...))
		v = append(v, refmath.New(shape...))
		require.NoError(t, ggml.Write(params[i].Tensor, w[i].Float32()))
	}
	clipped := 0
	for number := 1; number <= 8; number++ {
		rate, scale := 0.1/float64(number), []float64{1, 1 << 12}[number%2]
		size := []float64{0.01, 1, 0.2}[number%3]
		var grads []refmath.Tensor
		norm := 0.0
		for i, shape := range shapes {
			g := refmath.Normal(rng, size, shape...)
			for _, x := range g.Data {
				norm += x * x
			}
			grads = append(grads, g)
			require.NoError(t, ggml.Write(o.grad[params[i].Tensor], refmath.Scale(g, scale).Float32()))
		}
		norm = math.Sqrt(norm)
		taken := &step{scale: scale, metrics: StepMetrics{Step: number, LearningRate: rate}}
		require.NoError(t, o.prepare(taken, []float32{1, 1}))
		require.NoError(t, o.update.Workspace.Compute(context.Background(), o.update.Graph))
		require.NoError(t, o.read(taken, nil))
		require.InEpsilon(t, norm, taken.metrics.GradNorm, 1e-6)
		require.True(t, taken.taken)

		factor := 1.0
		if s.Clip > 0 && norm > s.Clip {
			factor = s.Clip / norm
			clipped++
		}
		for i := range shapes {
			for j := range grads[i].Data {
				grads[i].Data[j] *= factor
			}
			decay := s.Decay
			if len(shapes[i]) < s.DecayMinDims {
				decay = 0
			}
			w[i], m[i], v[i] = refmath.OptStepAdamW(w[i], grads[i], m[i], v[i], refmath.AdamWAt(number, single(factors[i]*rate), single(s.Beta1), single(s.Beta2), single(s.Epsilon), single(decay)))
			near(t, w[i], params[i].Tensor, "weights", number)
			near(t, m[i], o.first[i], "first moment", number)
			near(t, v[i], o.second[i], "second moment", number)
			near(t, refmath.New(shapes[i]...), o.grad[params[i].Tensor], "gradient after the step", number)
		}
	}
	if s.Clip > 0 {
		require.Positive(t, clipped)
	}
}

// The first step of AdamW moves each parameter by its rate, against the sign of its gradient: B by
// LoRAPlus times the rate of A and of weights. A has no gradient yet, so it only decays.
func TestRatesAndDecayOfTrainables(t *testing.T) {
	const rate, ratio, decay = 1e-3, 16, 0.5
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	a := need.Value(lora.New(m, lora.Options{Rank: 1, Alpha: 1, Targets: []string{"attn_q"}}))(t)
	defer a.Close()
	norm, matrix := m.Weight("blk.0.attn_norm.weight"), m.Weight("blk.1.ffn_down.weight")
	o := runOptions()
	o.Schedule = Schedule{Shape: Constant, Peak: rate, Steps: 1}
	o.AdamW.Decay, o.AdamW.Epsilon, o.LoRAPlus = decay, 1e-30, ratio
	tr := need.Value(New(m, Trainables{Adapters: a.WithScale(1), ModelWeights: []*ggml.Tensor{norm, matrix}}, data.New(6, randomSamples(7, 6)), o))(t)
	defer tr.Close()

	before := map[*ggml.Tensor][]float32{}
	for _, p := range tr.opt.params {
		before[p.Tensor] = need.Value(ggml.Read[float32](p.Tensor))(t)
	}
	_, err := tr.Step(context.Background())
	require.NoError(t, err)
	moved := func(x *ggml.Tensor, rate, decay float64) {
		t.Helper()
		after := need.Value(ggml.Read[float32](x))(t)
		for i, old := range before[x] {
			change := float64(after[i]) - float64(old)*(1-rate*decay)
			require.InDelta(t, rate, math.Abs(change), 1e-6, "%v, element %d", x, i)
		}
	}
	pair := a.Pairs()[0]
	moved(pair.B, ratio*rate, decay)
	moved(matrix, rate, decay)
	moved(norm, rate, 0)
	after := need.Value(ggml.Read[float32](pair.A))(t)
	for i, old := range before[pair.A] {
		require.InDelta(t, float64(old)*(1-rate*decay), after[i], 1e-7)
	}
}

func near(t *testing.T, want refmath.Tensor, got *ggml.Tensor, what string, step int) {
	t.Helper()
	values := need.Value(ggml.Read[float32](got))(t)
	require.Less(t, refmath.RelativeError(values, want.Data), 1e-5, "%s, step %d", what, step)
}
