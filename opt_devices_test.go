package ggml_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// trainAcross trains two layers with a frozen one between them, and returns the loss of each step.
// The parameters are on one device, the frozen weight on another.
func trainAcross(t *testing.T, optimizer ggml.OptimizerType, static bool, params, frozen *ggml.Device, backends ...*ggml.Backend) []float64 {
	const in, hidden, out, batch, steps = 16, 48, 4, 40, 12
	random := optest.RNG(31)
	tensor := func(d *ggml.Device, stddev float64, ne ...int64) *ggml.Tensor {
		x := placed(t, d, ne...)
		require.NoError(t, ggml.Write(x, refmath.Normal(random, stddev, ne...).Float32()))
		return x
	}
	w1, w2 := tensor(params, 0.3, in, hidden).SetParam(), tensor(params, 0.3, hidden, out).SetParam()
	fixed := tensor(frozen, 0.3, hidden, hidden)
	x := tensor(params, 1, in, batch).SetInput()
	labels := refmath.Normal(random, 1, out, batch).Float32()
	values := refmath.Normal(random, 1, in, batch).Float32()
	build := func(c *ggml.Context, x *ggml.Tensor) *ggml.Tensor {
		return c.MulMat(w2, c.Silu(c.MulMat(fixed, c.Silu(c.MulMat(w1, x)))))
	}
	options := ggml.OptimizerOptions{Loss: ggml.LossMeanSquaredError, Optimizer: optimizer, Params: func(int64) ggml.OptimizerParams {
		p := ggml.DefaultOptimizerParams()
		p.AdamW.LearningRate, p.SGD.LearningRate = 0.01, 0.1
		return p
	}}
	c := ggml.NewContext()
	defer c.Close()
	if static {
		options.Inputs, options.Outputs = x, build(c, x)
	}
	o := need.Value(ggml.NewOptimizer(options, backends...))(t)
	defer o.Close()
	var losses []float64
	for range steps {
		g := ggml.NewContext()
		inputs := x
		if !static {
			inputs = g.NewTensor(ggml.F32, in, batch).SetInput()
			outputs := build(g, inputs)
			require.NoError(t, o.Prepare(g.NewGraph(outputs), inputs, outputs))
		}
		require.NoError(t, o.Allocate(true))
		require.NoError(t, ggml.Write(inputs, values))
		require.NoError(t, ggml.Write(o.Labels(), labels))
		require.NoError(t, o.Eval(nil))
		losses = append(losses, float64(optest.Values(t, o.Loss())[0]))
		g.Close()
	}
	return losses
}

// Training gives the same losses on every device, also if the frozen weights are on another device
// than the parameters: the moments of AdamW are with the parameters.
func TestTrainingAcrossDevices(t *testing.T) {
	rig := newRig(t)
	last := len(rig.devices) - 1
	cpu, cpuBackend := rig.devices[last], rig.backends[last]
	for _, optimizer := range []ggml.OptimizerType{ggml.OptimizerAdamW, ggml.OptimizerSGD} {
		for _, static := range []bool{true, false} {
			want := trainAcross(t, optimizer, static, cpu, cpu, cpuBackend)
			require.Less(t, want[len(want)-1], 0.8*want[0], "%v does not train", optimizer)
			for name, c := range map[string]struct {
				params, frozen *ggml.Device
				backends       []*ggml.Backend
			}{
				"one server":              {rig.devices[0], rig.devices[0], []*ggml.Backend{rig.backends[0], cpuBackend}},
				"two servers":             {rig.devices[0], rig.devices[1], []*ggml.Backend{rig.backends[0], rig.backends[1], cpuBackend}},
				"a server and the CPU":    {rig.devices[0], cpu, []*ggml.Backend{rig.backends[0], cpuBackend}},
				"all of them, CPU frozen": {rig.devices[1], cpu, append([]*ggml.Backend{rig.backends[1], rig.backends[0]}, rig.backends[2:]...)},
			} {
				t.Run(fmt.Sprintf("%v/static %v/%s", optimizer, static, name), func(t *testing.T) {
					for i, loss := range trainAcross(t, optimizer, static, c.params, c.frozen, c.backends...) {
						require.InEpsilon(t, want[i], loss, 1e-4, "step %d", i)
					}
				})
			}
		}
	}
}

// ggml would silently train parameters on two devices wrongly: this is an error.
func TestParametersOnTwoDevices(t *testing.T) {
	rig := newRig(t)
	w1, w2 := placed(t, rig.devices[0], 16, 8).SetParam(), placed(t, rig.devices[1], 8, 4).SetParam().SetName("w2")
	x := placed(t, rig.devices[0], 16, 5).SetInput()
	c := ggml.NewContext()
	defer c.Close()
	_, err := ggml.NewOptimizer(ggml.OptimizerOptions{Inputs: x, Outputs: c.MulMat(w2, c.MulMat(w1, x))}, rig.backends...)
	require.ErrorContains(t, err, "w2 f32[8, 4]): the parameter must be in memory of the first backend, "+rig.devices[0].Name())
}
