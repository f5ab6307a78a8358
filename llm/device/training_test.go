package device_test

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func TestMain(m *testing.M) { optest.Main(m) }

func newEngine(t testing.TB, o device.Options) *device.Engine {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 2
	}
	e := need.Value(device.New(o))(t)
	t.Cleanup(func() { e.Close() })
	return e
}

func newAdapter(t testing.TB, m *model.Model) *lora.Adapter {
	t.Helper()
	a := need.Value(lora.New(m, lora.Options{Rank: 4, Alpha: 8, Init: lora.InitKaiming, Seed: 1}))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

// portable are the ops besides views that every ggml device supports: no custom op, no OUT_PROD, no *_BACK.
var portable = []string{
	"none", "view", "reshape", "permute", "transpose", "cont", "cpy", "repeat", "concat", "set", "acc", "fill", "arange",
	"mul_mat", "get_rows", "set_rows", "add", "sub", "mul", "div", "scale", "sqr", "sqrt", "log", "clamp", "sum_rows", "argmax",
	"rms_norm", "norm", "pad", "soft_max", "rope", "swiglu", "geglu", "sigmoid", "tanh", "gelu", "silu", "relu", "softplus", "step", "abs", "mul_mat_id", "add_id", "argsort",
	"exp", "neg", "l2_norm", "cumsum", "tri", "diag", "solve_tri", "xielu", "top_k",
}

func requirePortable(t *testing.T, g *ggml.Graph) {
	t.Helper()
	used := map[string]bool{}
	for node := range g.Nodes() {
		used[node.Op()] = true
	}
	require.NotEmpty(t, used)
	for op := range used {
		require.True(t, slices.Contains(portable, op), op)
	}
}

func TestStockTrainingGraph(t *testing.T) {
	for _, name := range llmtest.TestedArchitectures() {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			e := newEngine(t, device.Options{OpSet: device.Stock})
			a, grads, store := newAdapter(t, m), map[*ggml.Tensor]*ggml.Tensor{}, llmtest.NewArena(t)
			for _, p := range a.Pairs() {
				for _, x := range []*ggml.Tensor{p.A, p.B} {
					grads[x] = store.Tensor(x.Name()+".grad", make([]float32, x.NumElements()), x.Shape()...)
				}
			}
			for _, checkpoint := range []bool{false, true} {
				for _, noise := range []float32{0, 0.1} {
					g := need.Value(lossgraph.New(m, e, lossgraph.Options{
						Length: 24, Batch: 2, Adapters: a.WithScale(1), Grads: grads, Checkpoint: checkpoint, Dropout: noise, NEFTune: noise,
					}))(t)
					defer g.Close()
					requirePortable(t, g.Graph)
				}
			}
		})
	}
}

const steps = 50

// samples are sequences in which each token determines the next.
func samples(vocab int) *data.Dataset {
	const length = 24
	rng := rand.New(rand.NewPCG(9, 9))
	next := rng.Perm(vocab)
	var list []data.Sample
	for range 16 {
		s := data.Sample{Tokens: []int32{int32(rng.IntN(vocab))}}
		for range length {
			s.Tokens = append(s.Tokens, int32(next[s.Tokens[len(s.Tokens)-1]]))
		}
		list = append(list, s)
	}
	return data.New(length, list)
}

func trainOptions(e *device.Engine, checkpointing train.Checkpointing) train.Options {
	return train.Options{
		Schedule: train.Schedule{Peak: 0.003, Warmup: 5, Steps: steps}, AdamW: train.DefaultAdamW(),
		Batch: 2, Accumulate: 2, Seed: 3, Engine: e, Checkpointing: checkpointing,
	}
}

func newTrainer(t *testing.T, m *model.Model, e *device.Engine, checkpointing train.Checkpointing) *train.Trainer {
	t.Helper()
	tr := need.Value(train.New(m, train.Trainables{Adapters: newAdapter(t, m).WithScale(1)}, samples(m.Config().Vocab), trainOptions(e, checkpointing)))(t)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// requireSameLosses checks that losses have a small relative difference, and returns the largest.
func requireSameLosses(t *testing.T, want, got []train.StepMetrics, tolerance float64) (worst float64) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, p := range want {
		require.InEpsilon(t, p.Loss, got[i].Loss, tolerance, "step %d", p.Step)
		worst = max(worst, math.Abs(p.Loss-got[i].Loss)/p.Loss)
	}
	t.Logf("losses from %.4f to %.4f differ by at most %.1e", want[0].Loss, want[len(want)-1].Loss, worst)
	return worst
}

// Both lowerings train alike, and resume from each other's checkpoints.
func TestLoweringsTrainAlike(t *testing.T) {
	need.Time(t, "trains many times")
	eachOf(t, llmtest.FewArchitectures(), func(t *testing.T, m *model.Model) {
		ctx, engines := context.Background(), map[device.OpSet]*device.Engine{}
		runs, checkpoints := map[device.OpSet][]train.StepMetrics{}, map[device.OpSet]string{}
		for _, l := range []device.OpSet{device.Kernels, device.Stock} {
			engines[l] = newEngine(t, device.Options{OpSet: l, Threads: 1}) // two would wait for each other longer than they compute
			tr := newTrainer(t, m, engines[l], train.CheckpointingOff)
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
		tolerance := 1e-5
		if m.Config().Arch == "gemma3" {
			tolerance = 1e-4 // ggml's GELU table is F16, so it rounds like F16
		}
		requireSameLosses(t, runs[device.Kernels], runs[device.Stock], tolerance)

		for from, to := range map[device.OpSet]device.OpSet{device.Kernels: device.Stock, device.Stock: device.Kernels} {
			tr := newTrainer(t, m, engines[to], train.CheckpointingOff)
			require.NoError(t, tr.LoadCheckpoint(checkpoints[from]))
			require.NoError(t, tr.Run(ctx, train.RunOptions{}))
			requireSameLosses(t, runs[to], tr.History, tolerance)
		}
	})
}

// gradients returns the loss of a batch, and the gradients of an adapter and of the named weights.
func gradients(t *testing.T, m *model.Model, e *device.Engine, o lossgraph.Options, weights ...string) (loss float64, grads map[string][]float32) {
	t.Helper()
	a := trained(t, m)
	var params []*ggml.Tensor
	for _, p := range a.Pairs() {
		params = append(params, p.A, p.B)
	}
	for _, name := range weights {
		params = append(params, m.Weight(name))
	}
	c, memory := ggml.NewContext(), layout.NewMemory(e.Layout())
	defer c.Close()
	defer memory.Close()
	o.Batch, o.Adapters, o.Grads = 2, a.WithScale(1), map[*ggml.Tensor]*ggml.Tensor{}
	for _, p := range params {
		o.Grads[p] = c.NewTensor(ggml.F32, p.Shape()...)
		base, _, _ := strings.Cut(p.Name(), ".lora")
		w := m.Architecture().Weight(base)
		memory.Add(w.Layer, w.Kind, o.Grads[p])
	}
	require.NoError(t, memory.Allocate())
	require.NoError(t, memory.Clear(0))

	g := need.Value(lossgraph.New(m, e, o))(t)
	defer g.Close()
	switch d := e.Devices()[0]; {
	case e.Layout().Of != nil: // weights on the CPU use kernels
	case loweringName(t, e) == "stock" && (d.Type() == ggml.CPU || strings.HasPrefix(d.Name(), "RPC")):
		requirePortable(t, g.Graph) // other devices are queried for optional ops
	case d.Type() != ggml.CPU:
		for node := range g.Graph.Nodes() {
			require.True(t, d.SupportsOp(node), "%s lacks %v", d.Name(), node)
		}
	}
	batch := llmtest.NewBatch(m.Config().Vocab, o.Length)
	losses := need.Value(g.Compute(context.Background(), batch))(t)
	grads = map[string][]float32{}
	for _, p := range params {
		grads[p.Name()] = need.Value(ggml.Read[float32](o.Grads[p]))(t)
	}
	return llmtest.WeightedLoss(batch, losses), grads
}

func requireSameGradients(t *testing.T, want, got map[string][]float32, tolerance float64) {
	t.Helper()
	for name := range want {
		require.Less(t, refmath.NMSE(got[name], want[name]), tolerance, name)
	}
}

// chunked splits everything that can be split into chunks.
var chunked = lossgraph.Options{Length: 24, Checkpoint: true, FeedForwardChunk: 10, LogitsChunk: 10}

// Both lowerings have the same gradients: for all kinds of weights, for sequences of several query blocks, with chunks,
// and for base weights of all types.
func TestLoweringsHaveTheSameGradients(t *testing.T) {
	for _, c := range []struct {
		name    string
		typ     ggml.Type
		o       lossgraph.Options
		weights []string
	}{
		{"weights", ggml.F32, lossgraph.Options{Length: 24}, []string{"token_embd.weight", "output.weight", "blk.0.attn_q_norm.weight", "blk.1.ffn_down.weight"}},
		{"long", ggml.F32, lossgraph.Options{Length: 700}, nil},
		{"noise", ggml.Q8_0, lossgraph.Options{Length: 24, Dropout: 0.2, NEFTune: 5}, nil},
		{"chunks", ggml.F32, chunked, []string{"blk.0.post_ffw_norm.weight"}},
		{"F16", ggml.F16, lossgraph.Options{Length: 24}, nil},
		{"BF16", ggml.BF16, lossgraph.Options{Length: 24}, nil},
		{"Q8_0", ggml.Q8_0, lossgraph.Options{Length: 24}, nil},
		{"Q4_K", ggml.Q4_K, lossgraph.Options{Length: 24, Checkpoint: true}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Length > 100 {
				need.Time(t, "many tokens")
			}
			config := llmtest.LargeBlockConfig(false)
			config.Arch, config.Context, config.RoPE.Mode = "olmo2", 2048, ggml.RoPENeoX
			config.Window, config.WindowPattern, config.LocalFreqBase = 400, 2, 10000
			m := llmtest.NoisyModel(t, config, c.typ, 0.03)
			wantLoss, want := gradients(t, m, newEngine(t, device.Options{}), c.o, c.weights...)
			loss, got := gradients(t, m, newEngine(t, device.Options{OpSet: device.Stock}), c.o, c.weights...)
			require.InEpsilon(t, wantLoss, loss, 1e-6)
			requireSameGradients(t, want, got, 1e-8)
		})
	}
}

// A layer may have its own lowering in training, prefill and decode: the others use the device's.
func TestLoweringsByLayer(t *testing.T) {
	config := llmtest.LargeBlockConfig(false)
	config.Arch, config.Layers, config.RoPE.Mode, config.Context = "olmo2", 3, ggml.RoPENeoX, 64
	config.Window, config.WindowPattern, config.LocalFreqBase = 5, 2, 10000
	m := llmtest.NoisyModel(t, config, ggml.F32, 0.03)
	uses := map[device.Phase][]int{}
	mixed := newEngine(t, device.Options{Layers: func(layer int, u device.Use, of *nn.Lowering) *nn.Lowering {
		uses[u.Phase] = append(uses[u.Phase], layer)
		switch layer {
		case 1:
		case 2:
			return nil // the device's lowering
		default:
			return of
		}
		return need.Value(nn.StockTraining(ggml.F32, nil))(t)
	}})
	for _, o := range []lossgraph.Options{{Length: 24}, {Length: 24, Packed: true}, chunked} {
		wantLoss, want := gradients(t, m, newEngine(t, device.Options{}), o, "blk.1.attn_q.weight")
		loss, got := gradients(t, m, mixed, o, "blk.1.attn_q.weight")
		require.InEpsilon(t, wantLoss, loss, 1e-6)
		requireSameGradients(t, want, got, 1e-8)
	}
	want := logits(t, m, newEngine(t, device.Options{}), trained(t, m).WithScale(1))
	require.Less(t, refmath.NMSE(logits(t, m, mixed, trained(t, m).WithScale(1)), want), 1e-9)
	for _, phase := range []device.Phase{device.Training, device.Prefill, device.Decode} {
		require.Subset(t, uses[phase], []int{nn.NoLayer, 0, 1, 2}, phase)
	}
}

// Products in BF16 round; F16 products are supported by the CPU's kernels only.
func TestStockBF16(t *testing.T) {
	m := llmtest.NoisyModel(t, llmtest.LargeBlockConfig(false), ggml.Q8_0, 0.03)
	e := newEngine(t, device.Options{OpSet: device.Stock})
	exact, want := gradients(t, m, e, lossgraph.Options{Length: 24})
	for _, checkpoint := range []bool{false, true} {
		rounded, got := gradients(t, m, e, lossgraph.Options{Length: 24, ComputeType: ggml.BF16, Checkpoint: checkpoint})
		require.NotEqual(t, exact, rounded)
		require.InEpsilon(t, exact, rounded, 1e-3)
		requireSameGradients(t, want, got, 1e-3)
	}
	_, err := lossgraph.New(m, e, lossgraph.Options{Length: 4, Batch: 1, ComputeType: ggml.F16})
	require.EqualError(t, err, "there are no products of type f16 on this device; they are f32 or bf16")
}
