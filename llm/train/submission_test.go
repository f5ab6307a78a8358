package train

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// farModel returns a model whose layers are on an RPC server.
func farModel(t *testing.T) *model.Model {
	t.Helper()
	server := need.Value(ggml.AddRPCServer(optest.StartRPCServer(t).Endpoint))(t)
	t.Cleanup(func() { server.Unload() })
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, tinyLoRAModel(t).Save(path, model.SaveOptions{}))
	inLayers := func(layer int, _ layout.Kind) int { return max(0, -layer) } // the rest on the CPU
	m := need.Value(model.Load(path, model.LoadOptions{Layout: layout.Layout{Devices: server.Devices()[:1], Of: inLayers}}))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

// engines returns models with the engines that compute steps.
func engines(t *testing.T) map[string]func(t *testing.T) (*model.Model, *device.Engine) {
	local := func(ops device.OpSet) func(t *testing.T) (*model.Model, *device.Engine) {
		return func(t *testing.T) (*model.Model, *device.Engine) {
			e := need.Value(device.New(device.Options{Threads: 2, OpSet: ops}))(t)
			t.Cleanup(func() { e.Close() })
			return tinyLoRAModel(t), e
		}
	}
	return map[string]func(t *testing.T) (*model.Model, *device.Engine){
		"kernels": local(device.Kernels), "stock": local(device.Stock),
		"far": func(t *testing.T) (*model.Model, *device.Engine) {
			m := farModel(t)
			e := need.Value(device.New(device.Options{Threads: 2, Layout: m.Layout()}))(t)
			t.Cleanup(func() { e.Close() })
			return m, e
		},
	}
}

// A step is one submission per batch, and reads back one tensor each: the losses and the norm.
func TestSubmissionsOfStep(t *testing.T) {
	for name, open := range engines(t) {
		t.Run(name, func(t *testing.T) {
			m, e := open(t)
			for _, accumulate := range []int{1, 3} {
				o := runOptions()
				o.Engine, o.Batch, o.Accumulate = e, 2, accumulate
				o.Dropout, o.NEFTune, o.AdamW.Clip = 0.1, 5, 1e-3
				r := newLoRARun(t, m, data.New(6, randomSamples(7, 6)), o, lora.Options{Rank: 2, Alpha: 4})
				for range 2 {
					submissions, reads := testhook.Submissions.Load(), testhook.Reads.Load()
					_, err := r.Step(t.Context())
					require.NoError(t, err)
					require.EqualValues(t, accumulate, testhook.Submissions.Load()-submissions)
					require.EqualValues(t, accumulate, testhook.Reads.Load()-reads)
				}
			}
		})
	}
}

// So is a step of pairs, whose slopes are found in the pass.
func TestSubmissionsOfPairs(t *testing.T) {
	m, e := engines(t)["kernels"](t)
	o := runOptions()
	o.Engine, o.Loss, o.Accumulate = e, preferFirst(1), 3
	r := newLoRARun(t, m, pairs(t, 6, m.Config().Vocab), o, lora.Options{Rank: 2, Alpha: 4})
	submissions := testhook.Submissions.Load()
	trainSteps(t, r.Trainer, 1)
	require.EqualValues(t, 3, testhook.Submissions.Load()-submissions)
}

// A step whose loss or gradient is not finite changes no bit of parameters and moments. The error has
// both figures, and the run can continue when the cause is gone.
func TestStepThatIsNotFinite(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for name, open := range engines(t) {
		t.Run(name, func(t *testing.T) {
			m, e := open(t)
			for _, accumulate := range []int{1, 2} {
				if accumulate == 1 && testing.Short() {
					continue
				}
				for _, bad := range []float32{nan, inf, 1e38} {
					o := runOptions()
					o.Engine, o.Batch, o.Accumulate, o.AdamW.Decay = e, 4, accumulate, 0.1
					o.Dropout, o.NEFTune = 0, 0
					r := newLoRARun(t, m, data.New(6, randomSamples(8, 6)), o, lora.Options{Rank: 2, Alpha: 4})
					trainSteps(t, r.Trainer, 2)
					b := r.opt.params[len(r.opt.params)-1].Tensor
					good := need.Value(ggml.Read[float32](b))(t)
					spoilt := append([]float32{bad}, good[1:]...)
					require.NoError(t, ggml.Write(b, spoilt))
					before := stateOf(t, r.Trainer)
					_, err := r.Step(t.Context())
					require.ErrorIs(t, err, ErrDiverged)
					require.ErrorContains(t, err, "training diverged: step 3: the loss is ")
					require.Equal(t, before, stateOf(t, r.Trainer))
					require.NoError(t, ggml.Write(b, good))

					other := newLoRARun(t, m, data.New(6, randomSamples(8, 6)), o, lora.Options{Rank: 2, Alpha: 4})
					trainSteps(t, other.Trainer, 2)
					trainSteps(t, r.Trainer, 1)
					trainSteps(t, other.Trainer, 1)
					require.Equal(t, stateOf(t, other.Trainer), stateOf(t, r.Trainer))
				}
			}
		})
	}
}
