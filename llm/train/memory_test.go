package train

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/layout"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/weightcache"
)

// withAvailable replaces the available memory of the devices.
func withAvailable(t *testing.T, bytes ...int64) {
	t.Helper()
	replaced := availableMemory
	availableMemory = func(*device.Engine) layout.Sizes { return bytes }
	t.Cleanup(func() { availableMemory = replaced })
}

const plenty = math.MaxInt64

// The estimate equals the memory of a trainer after a step, and after a run with evaluations.
func TestEstimateMemory(t *testing.T) {
	ctx := context.Background()
	for _, checkpointing := range []Checkpointing{CheckpointingOff, CheckpointingOn} {
		for _, what := range []string{"adapter", "weights"} {
			t.Run(fmt.Sprintf("%v/%s", checkpointing, what), func(t *testing.T) {
				m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
				a := need.Value(lora.New(m, lora.Options{Rank: 2, Alpha: 4}))(t)
				defer a.Close()
				trained, adapter := Trainables{Adapters: a.WithScale(1)}, layout.Sizes{int64(4 * a.NumParameters())}
				if what == "weights" {
					trained, adapter = Trainables{}, nil
					for w := range m.Weights() {
						trained.ModelWeights = append(trained.ModelWeights, w)
					}
				}
				o := runOptions()
				o.Checkpointing = checkpointing
				d, valid := data.New(40, randomSamples(7, 40)), data.New(70, randomSamples(3, 70))

				objects := ggml.OpenObjects()
				step := need.Value(EstimateMemory(layout.Layout{}, m, trained, d, o))(t)
				run := need.Value(EstimateMemory(layout.Layout{}, m, trained, d, o, valid))(t)
				require.Equal(t, objects, ggml.OpenObjects())
				requireEstimate(t, m.Sizes(), run.Weights)
				requireEstimate(t, adapter, run.Adapters)

				tr := need.Value(New(m, trained, d, o))(t)
				defer tr.Close()
				_, err := tr.Step(ctx)
				require.NoError(t, err)
				requireEstimate(t, tr.opt.sizes(), step.Optimizer)
				requireEstimate(t, tr.loss.Memory(), step.Step)
				require.NoError(t, tr.Run(ctx, RunOptions{EvalData: valid}))
				requireEstimate(t, tr.evaluator.Memory(), run.Evaluations)
				requireEstimate(t, tr.Memory().Plus(m.Sizes()).Plus(run.Adapters), run.Total())
				require.Less(t, step.Evaluations.Total(), run.Evaluations.Total(), "the check of what is saved alone")
			})
		}
	}
	m := tinyLoRAModel(t)
	_, err := EstimateMemory(layout.Layout{}, m, Trainables{}, data.New(6, randomSamples(7, 6)), runOptions())
	require.EqualError(t, err, "there are no parameters to train")
}

// requireEstimate checks that an estimate is within 5 % of the memory taken.
func requireEstimate(t *testing.T, taken, said layout.Sizes) {
	t.Helper()
	require.Len(t, said, len(taken))
	for i := range taken {
		require.InDelta(t, taken[i], said[i], float64(taken[i])/20+4096, "%v, of %v", said, taken)
	}
}

func autoRun(t *testing.T, m *model.Model, o Options) *loraRun {
	return newLoRARun(t, m, data.New(24, randomSamples(7, 24)), o, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
}

// Layers are recomputed if the results of a step, the trained parameters and a mapped model do not fit
// into four fifths of the memory.
func TestCheckpointingByMemory(t *testing.T) {
	m := tinyLoRAModel(t)
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, m.Save(path, model.SaveOptions{}))
	mapped := need.Value(model.Load(path, model.LoadOptions{}))(t)
	defer mapped.Close()
	read := need.Value(model.Load(path, model.LoadOptions{NoMmap: true}))(t)
	defer read.Close()

	plain := runOptions()
	plain.Checkpointing = CheckpointingOff
	for name, c := range map[string]struct {
		m       *model.Model
		weights int64
	}{"mapped": {mapped, mapped.Sizes().Total()}, "read": {read, 0}} {
		t.Run(name, func(t *testing.T) {
			off := autoRun(t, c.m, plain)
			size := need.Value(off.loss.Measure())(t)
			need := off.opt.sizes().Plus(size).Total() + c.weights
			for _, choice := range []struct {
				available int64
				want      bool
			}{{plenty, false}, {need * 5 / 4, false}, {need*5/4 - 5, true}, {1 << 10, true}, {0, true}} {
				withAvailable(t, choice.available)
				require.Equal(t, choice.want, autoRun(t, c.m, runOptions()).HasCheckpointing(), "%d bytes for %d", choice.available, need)
				require.False(t, autoRun(t, c.m, plain).HasCheckpointing())
				plain.Checkpointing = CheckpointingOn
				require.True(t, autoRun(t, c.m, plain).HasCheckpointing())
				plain.Checkpointing = CheckpointingOff
			}
		})
	}
}

// A resumed run ends with the same bytes, whatever memory is available before and after.
func TestCheckpointingOfResumedRuns(t *testing.T) {
	m, ctx := tinyLoRAModel(t), context.Background()
	run := func(available int64, path string) *loraRun {
		withAvailable(t, available)
		r := autoRun(t, m, runOptions())
		if path != "" {
			require.NoError(t, r.LoadCheckpoint(path))
		}
		return r
	}
	whole := run(plenty, "")
	require.NoError(t, whole.Run(ctx, RunOptions{}))
	for _, little := range []bool{false, true} {
		available := map[bool]int64{false: plenty, true: 1}
		half := run(available[little], "")
		require.Equal(t, little, half.HasCheckpointing())
		for range 3 {
			_, err := half.Step(ctx)
			require.NoError(t, err)
		}
		path := filepath.Join(t.TempDir(), "run.gguf")
		require.NoError(t, half.SaveCheckpoint(path))
		for _, then := range []bool{false, true} {
			r := run(available[then], path)
			if little != then {
				was := map[bool]string{false: "off", true: "on"}
				require.Equal(t, []Difference{{"gradient checkpointing", "gradient checkpointing", was[little], was[then]}}, r.Changes())
			}
			require.NoError(t, r.Run(ctx, RunOptions{}))
			require.Equal(t, stateOf(t, whole.Trainer), stateOf(t, r.Trainer))
		}
	}
}

// A step takes no more memory than it may, and less time the more it may take: parameters are the same bytes. If no step fits,
// the error names the memory of the smallest.
func TestMemoryOfSteps(t *testing.T) {
	m := tinyLoRAModel(t)
	o := runOptions()
	run := func(memory int64) (*loraRun, int64, string) {
		if memory > 0 {
			o.Memory = layout.Sizes{memory}
		}
		r := autoRun(t, m, o)
		require.NoError(t, r.Run(t.Context(), RunOptions{}))
		return r, r.loss.Memory().Total(), stateOf(t, r.Trainer)
	}
	o.Checkpointing = CheckpointingOff
	_, most, want := run(0)
	o.Checkpointing = CheckpointingOn
	least, lowest, got := run(0)
	require.Equal(t, want, got)
	require.InDelta(t, 1, least.Recomputed(), 0)
	o.Checkpointing = CheckpointingAuto
	const points = 8
	before, flops := 1.0, least.loss.graphs[0].Graph.Summary().FLOPs
	for i := range points + 1 {
		memory := lowest + (most-lowest)*int64(i)/points
		r, took, got := run(memory)
		require.Equal(t, want, got, "%d of %d bytes", memory, most)
		require.LessOrEqual(t, took, memory)
		require.LessOrEqual(t, r.Recomputed(), before)
		require.LessOrEqual(t, r.loss.graphs[0].Graph.Summary().FLOPs, flops)
		before, flops = r.Recomputed(), r.loss.graphs[0].Graph.Summary().FLOPs
	}
	require.Zero(t, before)
	for _, c := range []Checkpointing{CheckpointingAuto, CheckpointingOn, CheckpointingOff} {
		need := map[Checkpointing]int64{CheckpointingAuto: lowest, CheckpointingOn: lowest, CheckpointingOff: most}[c]
		o.Checkpointing, o.Memory = c, layout.Sizes{need - 1}
		_, err := New(m, Trainables{Adapters: least.a.WithScale(1)}, data.New(24, randomSamples(7, 24)), o)
		require.Equal(t, &StepMemoryError{Device: "CPU", Need: need, Memory: need - 1}, err)
	}
	require.EqualError(t, &StepMemoryError{Device: "CUDA0", Need: 5 << 30, Memory: 3 << 29},
		"a step takes at least 5.0 GiB of memory of CUDA0, but Options.Memory is 1.5 GiB; raise it, or use smaller batches or shorter samples")
	o.Memory = layout.Sizes{1, 1}
	_, err := New(m, Trainables{Adapters: least.a.WithScale(1)}, data.New(24, randomSamples(7, 24)), o)
	require.EqualError(t, err, "Memory has the limits of 2 devices, and the engine has 1; it needs one for each")
}

func TestCheckpointingInWords(t *testing.T) {
	require.Equal(t, "auto on off Checkpointing(3)", fmt.Sprint(CheckpointingAuto, CheckpointingOn, CheckpointingOff, Checkpointing(3)))
}

// An estimate does not write to gradients and moments, so they take no memory.
func TestEstimateTakesNoMemory(t *testing.T) {
	c := llmtest.TinyConfig(false)
	c.FF = 12_000
	m := llmtest.TinyModel(t, c, ggml.F32)
	trained := Trainables{}
	for w := range m.Weights() {
		trained.ModelWeights = append(trained.ModelWeights, w)
	}
	resident := func() uint64 {
		debug.FreeOSMemory() // excludes garbage
		return rss.Now()
	}
	before := resident()
	if before == 0 {
		t.Skip("the system does not tell how much memory is resident")
	}
	o := runOptions()
	o.Checkpointing = CheckpointingOff
	tr := need.Value(prepare(m, trained, data.New(6, randomSamples(4, 6)), o))(t)
	defer tr.Close()
	const most = 15 << 20
	require.Greater(t, tr.opt.sizes().Total(), int64(3*most))
	require.Less(t, int64(resident())-int64(before), int64(most))
}

// A step that does not fit is an error with the figures; the step can be computed nevertheless.
func TestCheckMemory(t *testing.T) {
	r := autoRun(t, tinyLoRAModel(t), runOptions())
	size := need.Value(r.loss.Measure())(t)
	need := r.opt.sizes().Plus(size).Total()
	withAvailable(t, need)
	require.NoError(t, r.CheckMemory())
	withAvailable(t, need-1)
	require.Equal(t, &MemoryError{Device: "CPU", Need: need, Available: need - 1}, r.CheckMemory())
	require.EqualError(t, &MemoryError{Device: "CUDA0", Need: 5 << 40, Available: 3 << 29}, "a step takes 5120.0 GiB of memory beside the model, but CUDA0 has only 1.5 GiB available; use smaller batches or shorter samples")
	_, err := r.Step(t.Context())
	require.NoError(t, err)
}

// Each device needs memory for its part of a step.
func TestMemoryOfDevices(t *testing.T) {
	server := need.Value(ggml.AddRPCServer(optest.StartRPCServer(t).Endpoint))(t)
	defer server.Unload()
	far := server.Devices()[0]
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, tinyLoRAModel(t).Save(path, model.SaveOptions{}))
	inLayers := func(layer int, _ layout.Kind) int { return max(0, -layer) } // the rest on the CPU
	m := need.Value(model.Load(path, model.LoadOptions{Layout: layout.Layout{Devices: []*ggml.Device{far}, Of: inLayers}}))(t)
	defer m.Close()

	o := runOptions()
	none := weightcache.None
	o.Checkpointing, o.WeightCopies = CheckpointingOff, &none // such a step decides on checkpointing
	r := autoRun(t, m, o)
	need := need.Value(r.need())(t)
	withAvailable(t, need...)
	require.NoError(t, r.CheckMemory())
	for i, name := range []string{far.Name(), "CPU"} {
		available := slices.Clone(need)
		available[i]--
		withAvailable(t, available...)
		require.Equal(t, &MemoryError{Device: name, Need: need[i], Available: need[i] - 1}, r.CheckMemory())

		available = layout.Sizes{plenty, plenty}
		withAvailable(t, available...)
		require.False(t, autoRun(t, m, runOptions()).HasCheckpointing())
		available[i] = need[i]*5/4 - 5
		withAvailable(t, available...)
		require.True(t, autoRun(t, m, runOptions()).HasCheckpointing(), name)
	}
}

// A batch has no rows that no step fills, because they would take memory and time.
func TestBatchOfMoreThanAllRows(t *testing.T) {
	m := tinyLoRAModel(t)
	for _, epochs := range []int{1, 2} {
		o := runOptions()
		o.Epochs, o.Schedule.Steps, o.Accumulate = epochs, 0, 1
		run := func(batch int) *loraRun {
			o.Batch = batch
			r := autoRun(t, m, o)
			require.NoError(t, r.Run(t.Context(), RunOptions{}))
			require.Equal(t, 1, r.Steps())
			return r
		}
		exact, large := run(7*epochs), run(1000)
		require.Equal(t, exact.Memory(), large.Memory())
		require.Equal(t, exact.History, large.History)
	}
}

// The results of a step are proportional to its tokens, and hardly depend on the number of experts to
// choose from.
func TestMemoryOfExperts(t *testing.T) {
	need := func(experts, length int, adapted ...string) int64 {
		c := llmtest.TinyConfig(false)
		c.Arch, c.RoPE.Mode, c.Layers, c.Embd, c.FF, c.Context = "qwen3moe", ggml.RoPENeoX, 1, 128, 128, 256
		c.Experts, c.ExpertsUsed, c.ExpertFF, c.Gating, c.NormalizedExperts = experts, 8, 128, arch.GatingSoftMax, true
		m := need.Value(model.New(c, nil, 1))(t)
		defer m.Close()
		trained := Trainables{}
		if adapted == nil {
			trained.ModelWeights = slices.Collect(m.Weights())
		} else {
			a := need.Value(lora.New(m, lora.Options{Rank: 8, Alpha: 8, Targets: adapted}))(t)
			defer a.Close()
			trained.Adapters = a.WithScale(1)
		}
		o := runOptions()
		o.Checkpointing = CheckpointingOff
		e := need.Value(EstimateMemory(layout.Layout{}, m, trained, data.New(length, randomSamples(2, length)), o))(t)
		return e.Step.Total()
	}
	for name, adapted := range map[string][]string{
		"weights": nil, "adapter": {lora.AllLinear, "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"},
	} {
		few := need(8, 128, adapted...)
		require.Less(t, need(64, 128, adapted...), few*11/10, "%s of 64 experts, and of 8", name)
		require.LessOrEqual(t, need(8, 256, adapted...), 2*few, "%s of twice as many tokens", name)
	}
}
