package device_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { testutil.Main(m) }

func newEngine(t testing.TB, o device.Options) *device.Engine {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 2
	}
	e, err := device.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { e.Close() })
	return e
}

func newAdapter(t testing.TB, m *model.Model) *lora.Adapter {
	t.Helper()
	a, err := lora.New(m, lora.Options{Rank: 4, Alpha: 8, Init: lora.InitKaiming, Seed: 1})
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

// portable are ops that every device of ggml has, besides views: no custom op, no
// OUT_PROD, no *_BACK.
var portable = []string{
	"none", "view", "reshape", "permute", "transpose", "cont", "cpy", "repeat", "concat", "set", "acc", "fill", "arange",
	"mul_mat", "get_rows", "set_rows", "add", "sub", "mul", "div", "scale", "sqr", "sqrt", "clamp", "sum_rows", "argmax",
	"rms_norm", "soft_max", "rope", "swiglu", "geglu", "sigmoid", "tanh",
}

func requirePortable(t *testing.T, g *ggml.Graph) {
	t.Helper()
	used := map[string]bool{}
	for node := range g.Nodes() {
		used[node.Op()] = true
	}
	require.NotEmpty(t, used)
	for op := range used {
		require.Contains(t, portable, op)
	}
}

// The models of the tests are of all architectures.
func TestConfigs(t *testing.T) {
	require.Equal(t, arch.Architectures(), slices.Sorted(maps.Keys(configs())))
}

func TestStockTrainingGraph(t *testing.T) {
	each(t, func(t *testing.T, m *model.Model) {
		e := newEngine(t, device.Options{Lowering: device.Stock})
		a, grads, store := newAdapter(t, m), map[*ggml.Tensor]*ggml.Tensor{}, llmtest.NewArena(t)
		for _, p := range a.Pairs() {
			for _, x := range []*ggml.Tensor{p.A, p.B} {
				grads[x] = store.Tensor(x.Name()+".grad", make([]float32, x.NumElements()), x.Shape()...)
			}
		}
		for _, checkpoint := range []bool{false, true} {
			g, err := m.NewLossGraph(e, model.TrainGraphOptions{Length: 24, Batch: 2, Adapters: a.Weights(1), Grads: grads, Checkpoint: checkpoint})
			require.NoError(t, err)
			defer g.Close()
			requirePortable(t, g.Graph)
		}
	})
}

const steps = 50

// samples are sequences in which each token decides the next.
func samples(vocab int) *data.Dataset {
	rng := rand.New(rand.NewPCG(9, 9))
	d, next := &data.Dataset{Length: 24}, rng.Perm(vocab)
	for range 16 {
		s := data.Sample{Tokens: []int32{int32(rng.IntN(vocab))}}
		for range d.Length {
			s.Tokens = append(s.Tokens, int32(next[s.Tokens[len(s.Tokens)-1]]))
		}
		d.Samples = append(d.Samples, s)
	}
	return d
}

func newTrainer(t *testing.T, m *model.Model, e *device.Engine, compute ggml.Type) *train.Trainer {
	t.Helper()
	tr, err := train.New(m, train.Trainables{Adapters: newAdapter(t, m).Weights(1)}, samples(m.Vocab), train.Options{
		Schedule: train.Schedule{Peak: 0.003, Warmup: 5, Steps: steps}, AdamW: train.DefaultAdamW(),
		Batch: 2, Accumulate: 2, Seed: 3, Engine: e, ComputeType: compute,
	})
	require.NoError(t, err)
	t.Cleanup(func() { tr.Close() })
	return tr
}

func requireSameLosses(t *testing.T, want, got []train.StepMetrics, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, p := range want {
		require.InEpsilon(t, p.Loss, got[i].Loss, tolerance, "step %d", p.Step)
	}
}

// Both lowerings train alike, and go on with each other's checkpoints.
func TestLoweringsTrainAlike(t *testing.T) {
	each(t, func(t *testing.T, m *model.Model) {
		ctx, engines := context.Background(), map[device.Lowering]*device.Engine{}
		runs, checkpoints := map[device.Lowering][]train.StepMetrics{}, map[device.Lowering]string{}
		for _, l := range []device.Lowering{device.Kernels, device.Stock} {
			engines[l] = newEngine(t, device.Options{Lowering: l})
			tr := newTrainer(t, m, engines[l], ggml.F32)
			for range steps / 2 {
				_, err := tr.Step(ctx)
				require.NoError(t, err)
			}
			checkpoints[l] = filepath.Join(t.TempDir(), "checkpoint.gguf")
			require.NoError(t, tr.SaveCheckpoint(checkpoints[l]))
			require.NoError(t, tr.Run(ctx, train.RunOptions{}))
			runs[l] = tr.History
		}
		require.Less(t, runs[device.Kernels][steps-1].Loss, 0.95*runs[device.Kernels][0].Loss)
		requireSameLosses(t, runs[device.Kernels], runs[device.Stock], 1e-5)

		for from, to := range map[device.Lowering]device.Lowering{device.Kernels: device.Stock, device.Stock: device.Kernels} {
			tr := newTrainer(t, m, engines[to], ggml.F32)
			require.NoError(t, tr.LoadCheckpoint(checkpoints[from]))
			require.NoError(t, tr.Run(ctx, train.RunOptions{}))
			requireSameLosses(t, runs[to], tr.History, 1e-5)
		}
	})
}
