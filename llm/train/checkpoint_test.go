package train

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// A loraRun is a trainer of an adapter, with its model, adapter and data.
type loraRun struct {
	*Trainer
	m *model.Model
	a *lora.Adapter
}

func runOptions() Options {
	return Options{Schedule: Schedule{Peak: 0.01, Warmup: 2, Steps: 6}, AdamW: DefaultAdamW(), Batch: 2, Accumulate: 2, Seed: 3, Threads: 1}
}

// randomSamples returns n samples, some of them short.
func randomSamples(n, length int) []data.Sample {
	var list []data.Sample
	for i := range n {
		list = append(list, data.Sample{Tokens: llmtest.RandomTokens(uint64(i), length+1-i%3, 96)})
	}
	return list
}

func newLoRARun(t *testing.T, m *model.Model, d *data.Dataset, o Options, lo lora.Options) *loraRun {
	t.Helper()
	a := need.Value(lora.New(m, lo))(t)
	t.Cleanup(func() { a.Close() })
	tr := need.Value(New(m, Trainables{Adapters: a.WithScale(1)}, d, o))(t)
	t.Cleanup(func() { tr.Close() })
	return &loraRun{tr, m, a}
}

func usualRun(t *testing.T, m *model.Model) *loraRun { return usualRunWith(t, m, runOptions()) }

func usualRunWith(t *testing.T, m *model.Model, o Options) *loraRun {
	return newLoRARun(t, m, data.New(6, randomSamples(7, 6)), o, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
}

func tinyLoRAModel(t *testing.T) *model.Model {
	return llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.Q8_0)
}

// savedRun runs some steps and saves a checkpoint.
func savedRun(t *testing.T, m *model.Model, steps int) (path string, r *loraRun) {
	t.Helper()
	r = usualRun(t, m)
	for range steps {
		_, err := r.Step(context.Background())
		require.NoError(t, err)
	}
	r.Evaluations = []Evaluation{{Step: 0, Loss: 4, Accuracy: 0.1, Tokens: 30}, {Step: steps, Loss: 3, Accuracy: 0.3, Tokens: 30}}
	path = filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, r.SaveCheckpoint(path))
	return path, r
}

// stateOf returns everything that a checkpoint restores.
func stateOf(t *testing.T, tr *Trainer) string {
	t.Helper()
	var all bytes.Buffer
	fmt.Fprintln(&all, tr.step, tr.position, tr.History, tr.Evaluations)
	for i, p := range tr.opt.params {
		for _, x := range []*ggml.Tensor{p.Tensor, tr.opt.first[i], tr.opt.second[i]} {
			_, err := io.Copy(&all, tensorData(x))
			require.NoError(t, err)
		}
	}
	return all.String()
}

// Every mutation of a checkpoint is detected and changes nothing, or affects nothing that is restored.
func TestCheckpointMutations(t *testing.T) {
	need.Time(t, "seconds of mutations")
	m := tinyLoRAModel(t)
	path, saved := savedRun(t, m, 3)
	want := stateOf(t, saved.Trainer)
	whole := need.Value(os.ReadFile(path))(t)
	fresh := usualRun(t, m)
	before := stateOf(t, fresh.Trainer)
	require.NotEqual(t, before, want)

	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for i := range 500 {
		data := slices.Clone(whole)
		at := rng.IntN(len(data))
		switch i % 5 {
		case 0, 1:
			data[at] ^= 1 << rng.IntN(8)
		case 2: // in the keys, a small part of the file
			data[rng.IntN(4096)] ^= 1 << rng.IntN(8)
		case 3:
			data[at] = byte(rng.Uint32())
			copy(data[at/2:], data[at:min(at+16, len(data))])
		case 4:
			data = data[:at]
		}
		if bytes.Equal(data, whole) {
			continue
		}
		damaged := filepath.Join(t.TempDir(), "damaged.gguf")
		require.NoError(t, os.WriteFile(damaged, data, 0o600))
		r := usualRun(t, m)
		if err := r.LoadCheckpoint(damaged); err != nil {
			refused++
			require.ErrorContains(t, err, damaged)
			require.NotContains(t, err.Error(), "download")
			require.Equal(t, before, stateOf(t, r.Trainer), "mutation %d: %v", i, err)
		} else {
			require.Equal(t, want, stateOf(t, r.Trainer), "mutation %d", i)
		}
		require.NoError(t, r.Close())
		require.NoError(t, r.a.Close())
	}
	require.Greater(t, refused, 400)
}

// rewrite changes a checkpoint and updates its checksum.
func rewrite(t *testing.T, path string, change func(g *ggml.GGUF)) string {
	t.Helper()
	sum, name := "", filepath.Join(t.TempDir(), "changed.gguf")
	for range 2 { // the checksum is computed from the written file
		from := need.Value(ggml.OpenGGUF(path))(t)
		g := need.Value(ggml.NewGGUF())(t)
		require.NoError(t, g.CopyKeys(from))
		for info := range from.Tensors() {
			require.NoError(t, g.CopyTensor(from, info.Name))
		}
		change(g)
		require.NoError(t, g.Set(keyChecksum, sum))
		require.NoError(t, g.WriteFile(name))
		require.NoError(t, g.Close())
		require.NoError(t, from.Close())
		written := need.Value(ggml.OpenGGUF(name))(t)
		sum = need.Value(checksum(written, written.TensorData))(t)
		require.NoError(t, written.Close())
	}
	return name
}

func set(key string, value any) func(t *testing.T, g *ggml.GGUF) {
	return func(t *testing.T, g *ggml.GGUF) { require.NoError(t, g.Set(key, value)) }
}

// poke replaces the second value of a tensor.
func poke(name string, value float32) func(t *testing.T, g *ggml.GGUF) {
	return func(t *testing.T, g *ggml.GGUF) {
		info, ok := g.Tensor(name)
		require.True(t, ok, name)
		require.NoError(t, g.SetTensorData(name, ggml.F32, func(w io.Writer) error {
			values := make([]float32, info.NumElements())
			values[1] = value
			return binary.Write(w, binary.LittleEndian, values)
		}))
	}
}

// An inconsistent checkpoint, or one that training cannot continue from, is rejected with an error
// that names the file and the remedy, and changes nothing.
func TestCheckpointContradictions(t *testing.T) {
	m := tinyLoRAModel(t)
	path, _ := savedRun(t, m, 3) // 7 samples, 4 per step: sample 5 of the second epoch
	const param = "blk.1.attn_q.weight.lora_b"
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		change func(t *testing.T, g *ggml.GGUF)
		want   string
	}{
		{set(keyStep, uint32(0)), ": it is at step 0, but has a history of 3 steps; " + remedy},
		{set(keyStep, uint32(1)), ": it is at step 1, but has a history of 3 steps; " + remedy},
		{set(keyStep, uint32(6000)), ": it is at step 6000, but has a history of 3 steps; " + remedy},
		{set(keyStep, uint64(1<<32)), ": ggml: "},
		{set(keyPosition, uint64(7)), ": its step, 3, does not match row 7 of epoch 1; " + remedy},
		{set(keyPosition, uint64(6)), ": its step, 3, does not match row 6 of epoch 1; " + remedy},
		{set(keyEpoch, uint64(2)), ": its step, 3, does not match row 5 of epoch 2; " + remedy},
		{set(keyEpoch, uint64(math.MaxUint64)), ": its step, 3, does not match row 5 of epoch 18446744073709551615; " + remedy},
		{set("training.history.steps", []uint32{1, 3, 3}), ": row 2 of its history is invalid: {Step:3 "},
		{set("training.history.values", make([]float64, 8)), "has 8 values for 3 steps"},
		{set("training.history.values", []float64{1, 1, 1, 5, 1, 1, 1, 2.5, 1, 1, 1, 5}), ": row 2 of its history is invalid: {Step:2 Loss:1 LearningRate:1 GradNorm:1 Tokens:-1 RowTokens:0 Epoch:0}; " + remedy},
		{set("training.history.values", slices.Repeat([]float64{1, 1, 1, 5, 5, -1}, 3)), ": row 1 of its history is invalid: {Step:1 Loss:1 LearningRate:1 GradNorm:1 Tokens:5 RowTokens:5 Epoch:-1}; " + remedy},
		{set("training.history.values", slices.Repeat([]float64{1, 1, 1, 5, 0.5, 1}, 3)), ": row 1 of its history is invalid: {Step:1 Loss:1 LearningRate:1 GradNorm:1 Tokens:5 RowTokens:-1 Epoch:1}; " + remedy},
		{set("training.validation.steps", []uint32{0, 4}), ": row 2 of its evaluations is invalid: {Step:4 Loss:3 Accuracy:0.3 Tokens:30}; " + remedy},
		{set("training.validation.values", []float64{math.Inf(1), 0, 1, 3, 0, 1}), ": row 1 of its evaluations is invalid: {Step:0 Loss:+Inf "},
		{set("training.validation.values", []float64{1, 0, 1, 3, 1.5, 1}), ": row 2 of its evaluations is invalid: {Step:3 Loss:3 Accuracy:1.5 "},
		{set("training.validation.values", []float64{1, math.NaN(), 1, 3, 1, 1}), ": row 1 of its evaluations is invalid: {Step:0 Loss:1 Accuracy:NaN "},
		{set("training.validation.values", []float64{1, 0, 1, 3, 1, 1e300}), ": row 2 of its evaluations is invalid: {Step:3 Loss:3 Accuracy:1 Tokens:-1}"},
		{poke(param, nan), ": its tensor " + param + " holds NaN; " + remedy},
		{poke(param+".m", inf), ": its tensor " + param + ".m holds -Inf; " + remedy},
		{poke(param+".v", -1), ": its tensor " + param + ".v, a mean of squares, holds -1; " + remedy},
		{set(keyFormat, uint32(1)), " is a checkpoint of version 1, which has no checksum and no position in the data; finish its run with the program that began it, or start a new run"},
		{set(keyFormat, uint32(3)), " is a checkpoint of version 3, but this program reads version 2; use a newer program"},
		{set(keyType, "model"), ` is not a checkpoint: its general.type is "model"`},
	} {
		r := usualRun(t, m)
		before := stateOf(t, r.Trainer)
		name := rewrite(t, path, func(g *ggml.GGUF) { c.change(t, g) })
		err := r.LoadCheckpoint(name)
		require.ErrorContains(t, err, c.want)
		require.ErrorContains(t, err, name)
		require.NotContains(t, err.Error(), "download")
		require.Equal(t, before, stateOf(t, r.Trainer), c.want)
	}
	r := usualRun(t, m)
	require.NoError(t, r.LoadCheckpoint(rewrite(t, path, func(*ggml.GGUF) {})), "nothing else is wrong with them")

	folder := t.TempDir()
	require.ErrorContains(t, r.LoadCheckpoint(folder), folder+": cannot be opened: it is a folder")
	text := filepath.Join(folder, "text")
	require.NoError(t, os.WriteFile(text, []byte("not a checkpoint"), 0o600))
	require.EqualError(t, r.LoadCheckpoint(text), text+" is not a checkpoint, or is damaged; "+remedy)
}

// Another value of a fixed setting is another run, and the error names the setting.
func TestCheckpointFixedSettings(t *testing.T) {
	m := tinyLoRAModel(t)
	path, _ := savedRun(t, m, 2)
	base := lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}}
	longRoPE := llmtest.TinyConfig(false)
	longRoPE.RoPE.FreqBase = 5000
	scaledRoPE := llmtest.TinyConfig(false)
	scaledRoPE.RoPE.FreqScale = 0.5
	for _, c := range []struct {
		want string
		open func(o *Options, lo *lora.Options, d *data.Dataset) *model.Model
	}{
		{"batch was 2, is 4; gradient accumulation was 2, is 1", func(o *Options, _ *lora.Options, _ *data.Dataset) *model.Model {
			o.Batch, o.Accumulate = 4, 1
			return m
		}},
		{"seed was 3, is 4", func(o *Options, _ *lora.Options, _ *data.Dataset) *model.Model {
			o.Seed = 4
			return m
		}},
		{"other data", func(_ *Options, _ *lora.Options, d *data.Dataset) *model.Model {
			row := need.Value(d.Row(6))(t)
			row[0].Tokens[1]++
			return m
		}},
		{"sample length was 6, is 7", func(_ *Options, _ *lora.Options, d *data.Dataset) *model.Model {
			d.Length = 7
			return m
		}},
		{"adapter scale of blk.0.attn_q.weight was 2, is 4; adapter scale of blk.1.attn_q.weight was 2, is 4", func(_ *Options, lo *lora.Options, _ *data.Dataset) *model.Model {
			lo.Alpha = 8
			return m
		}},
		{"llama.rope.freq_base was 10000, is 5000", func(*Options, *lora.Options, *data.Dataset) *model.Model {
			return llmtest.TinyModel(t, longRoPE, ggml.Q8_0)
		}},
		{"llama.rope.scaling.type was absent, is linear; llama.rope.scaling.factor was absent, is 2; llama.rope.scaling.original_context_length was absent, is 64; llama.rope.scaling.attn_factor was absent, is 1", func(*Options, *lora.Options, *data.Dataset) *model.Model {
			return llmtest.TinyModel(t, scaledRoPE, ggml.Q8_0)
		}},
		{"other frozen weights", func(*Options, *lora.Options, *data.Dataset) *model.Model {
			return llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.Q4_0)
		}},
		{"tensor blk.0.attn_q.weight.lora_a was f32[64, 2], is f32[64, 3]; ", func(_ *Options, lo *lora.Options, _ *data.Dataset) *model.Model {
			lo.Rank, lo.Alpha = 3, 6
			return m
		}},
		{"tensor blk.0.attn_k.weight.lora_a was absent, is f32[64, 2]; ", func(_ *Options, lo *lora.Options, _ *data.Dataset) *model.Model {
			lo.Targets = []string{"attn_q", "attn_k"}
			return m
		}},
		{"tensor blk.0.attn_q.weight.lora_a was f32[64, 2], is absent; ", func(_ *Options, lo *lora.Options, _ *data.Dataset) *model.Model {
			lo.Targets = []string{"attn_k"}
			return m
		}},
	} {
		o, lo, d := runOptions(), base, data.New(6, randomSamples(7, 6))
		changed := c.open(&o, &lo, d)
		r := newLoRARun(t, changed, d, o, lo)
		err := r.LoadCheckpoint(path)
		var mismatch *MismatchError
		require.ErrorAs(t, err, &mismatch)
		require.True(t, strings.HasPrefix(err.Error(), path+" belongs to another run: "), err)
		require.ErrorContains(t, err, c.want)
		require.True(t, strings.HasSuffix(err.Error(), "; use the settings of that run, or start a new one"), err)
		if !strings.HasSuffix(c.want, "; ") {
			require.Equal(t, path+" belongs to another run: "+c.want+"; use the settings of that run, or start a new one", err.Error())
		}
		require.Zero(t, r.Steps())
	}
}

// If a program sets DataOrigin, the error for other data names the differences in it; a different
// origin of the same data is no difference.
func TestCheckpointNamesTheOriginOfData(t *testing.T) {
	m, path := tinyLoRAModel(t), filepath.Join(t.TempDir(), "run.gguf")
	lo := lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}}
	run := func(origin map[string]string, n, length int) *Trainer {
		o := runOptions()
		o.DataOrigin = origin
		return newLoRARun(t, m, data.New(length, randomSamples(n, length)), o, lo).Trainer
	}
	mismatch := func(t1 *Trainer) string {
		var other *MismatchError
		require.ErrorAs(t, t1.LoadCheckpoint(path), &other)
		var list []string
		for _, d := range other.Differences {
			list = append(list, d.String())
		}
		return strings.Join(list, "; ")
	}
	was := map[string]string{"--template": "a.jinja", "--words": "last"}
	require.NoError(t, run(was, 7, 6).SaveCheckpoint(path))
	require.Equal(t, "--template was a.jinja, is b.jinja", mismatch(run(map[string]string{"--template": "b.jinja", "--words": "last", "--new": "x"}, 8, 6)))
	require.Equal(t, "--template was a.jinja, is b.jinja; --words was last, is all", mismatch(run(map[string]string{"--template": "b.jinja", "--words": "all"}, 8, 6)))
	require.Equal(t, "other data", mismatch(run(was, 8, 6)))
	require.Equal(t, "sample length was 6, is 5", mismatch(run(was, 8, 5)))
	require.Equal(t, "other data; sample length was 6, is 5", mismatch(run(nil, 8, 5)))
	require.NoError(t, run(map[string]string{"--template": "copy.jinja"}, 7, 6).LoadCheckpoint(path))
}

// The fingerprint covers every byte of the base weights.
func TestCheckpointSeesEveryWeight(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	path, _ := savedRun(t, m, 1)
	changed := func(name string, at int) *model.Model {
		file := filepath.Join(t.TempDir(), "other.gguf")
		require.NoError(t, m.Save(file, model.SaveOptions{Change: func(of string) func([]float32) error {
			if of != name {
				return nil
			}
			return func(v []float32) error {
				v[at] = math.Nextafter32(v[at], 1)
				return nil
			}
		}}))
		other := need.Value(model.Load(file, model.LoadOptions{}))(t)
		t.Cleanup(func() { other.Close() })
		return other
	}
	require.NoError(t, usualRun(t, changed("none", 0)).LoadCheckpoint(path))
	for w := range m.Weights() {
		last := int(w.NumElements()) - 1 // beyond 4,096 bytes in all matrices
		err := usualRun(t, changed(w.Name(), last)).LoadCheckpoint(path)
		require.ErrorContains(t, err, path+" belongs to another run: other frozen weights; ", w.Name())
	}
}

// Free settings may change: the run continues and lists the changes.
func TestCheckpointFreeSettings(t *testing.T) {
	m := tinyLoRAModel(t)
	path, saved := savedRun(t, m, 3)
	o := runOptions()
	o.Schedule = Schedule{Shape: Linear, Peak: 0.02, Floor: 0.001, Warmup: 1, Steps: 9, Period: 2, PeriodGrowth: 2, Restart: true}
	o.AdamW = AdamW{Beta1: 0.8, Beta2: 0.99, Epsilon: 1e-6, Decay: 0.1, DecayMinDims: 1, Clip: 2}
	o.LoRAPlus = 16
	o.Convergence = Convergence{Patience: 3, MinDelta: 0.1, Past: 5, Delta: 1e-5, Epsilon: 1e-6, MaxNoImprovement: 50}
	o.Checkpointing, o.Threads = CheckpointingOn, 2
	r := newLoRARun(t, m, data.New(6, randomSamples(7, 6)), o, lora.Options{Rank: 2, Alpha: 4, Targets: []string{"attn_q"}})
	require.NoError(t, r.LoadCheckpoint(path))
	require.Equal(t, []Difference{
		{"steps", "steps", "6", "9"}, {"learning rate", "learning rate", "0.01", "0.02"}, {"final learning rate", "final learning rate", "0", "0.001"}, {"warm-up", "warm-up", "2", "1"},
		{"schedule", "schedule", "cosine", "linear"}, {"period of the schedule", "period of the schedule", "0", "2"}, {"growth of the period", "growth of the period", "1", "2"}, {"restarts", "restarts", "false", "true"},
		{"β₁", "β₁", "0.9", "0.8"}, {"β₂", "β₂", "0.999", "0.99"}, {"ε", "ε", "1e-08", "1e-06"}, {"weight decay", "weight decay", "0", "0.1"},
		{"dimensions from which on weights decay", "dimensions from which on weights decay", "2", "1"}, {"gradient clip", "gradient clip", "1", "2"},
		{"learning rate of B over that of A", "learning rate of B over that of A", "1", "16"},
		{"patience", "patience", "0", "3"}, {"least improvement of an evaluation", "least improvement of an evaluation", "0", "0.1"},
		{"steps between losses that are compared", "steps between losses that are compared", "0", "5"}, {"least change of the loss between them", "least change of the loss between them", "0", "1e-05"},
		{"least change of the loss in a step", "least change of the loss in a step", "0", "1e-06"}, {"steps without a new lowest loss", "steps without a new lowest loss", "0", "50"},
		{"gradient checkpointing", "gradient checkpointing", "off", "on"},
	}, r.Changes())
	require.Equal(t, "learning rate was 0.01, is 0.02", r.Changes()[1].String())
	require.Equal(t, stateOf(t, saved.Trainer), stateOf(t, r.Trainer))
	require.NoError(t, r.Run(context.Background(), RunOptions{}))
	require.Equal(t, 9, r.Steps())
	require.InDelta(t, 0.02, r.History[3].LearningRate, 1e-15, "step 4 is the first of a cycle of four")

	same := usualRun(t, m)
	require.NoError(t, same.LoadCheckpoint(path))
	require.Empty(t, same.Changes())
}

// Checkpoints from before steps had numbers of tokens, and evaluations an accuracy, can be resumed.
func TestCheckpointOfFewerColumns(t *testing.T) {
	m := tinyLoRAModel(t)
	path, saved := savedRun(t, m, 2)
	var three, four []float64
	for _, x := range saved.History {
		three = append(three, x.Loss, x.LearningRate, x.GradNorm)
		four = append(four, x.Loss, x.LearningRate, x.GradNorm, float64(x.Tokens))
	}
	load := func(history, evaluations []float64) *Trainer {
		older := rewrite(t, path, func(g *ggml.GGUF) {
			require.NoError(t, g.Set("training.history.values", history))
			require.NoError(t, g.Set("training.validation.values", evaluations))
		})
		r := usualRun(t, m)
		require.NoError(t, r.LoadCheckpoint(older))
		return r.Trainer
	}
	for i := range saved.History {
		require.Positive(t, saved.History[i].RowTokens)
		require.Positive(t, saved.History[i].Epoch)
		saved.History[i].RowTokens, saved.History[i].Epoch = 0, 0
	}
	require.Equal(t, saved.History, load(four, []float64{4, 0, 3, 3, 0, 3}).History)
	for i := range saved.History {
		require.Positive(t, saved.History[i].Tokens)
		saved.History[i].Tokens = 0
	}
	r := load(three, []float64{4, 3})
	require.Equal(t, saved.History, r.History)
	require.Equal(t, []Evaluation{{Step: 0, Loss: 4}, {Step: 2, Loss: 3}}, r.Evaluations)
}

// A checkpoint with a setting that this program does not know is rejected; one that lacks a setting,
// because it was written before the setting existed, is not.
func TestCheckpointOfOtherPrograms(t *testing.T) {
	m := tinyLoRAModel(t)
	path, _ := savedRun(t, m, 1)
	older := rewrite(t, path, func(g *ggml.GGUF) {
		require.NoError(t, g.Remove("training.fixed.llama.rope.freq_base"))
		require.NoError(t, g.Remove("training.free.weight decay"))
	})
	r := usualRun(t, m)
	require.NoError(t, r.LoadCheckpoint(older))
	require.Empty(t, r.Changes())
	newer := rewrite(t, path, func(g *ggml.GGUF) {
		require.NoError(t, g.Set("training.fixed.dropout", "0.1"))
	})
	require.ErrorContains(t, usualRun(t, m).LoadCheckpoint(newer), " belongs to another run: dropout was 0.1, is absent; ")
}
