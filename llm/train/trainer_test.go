package train_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func tinyModel(t *testing.T) *model.Model {
	t.Helper()
	m := need.Value(model.New(arch.Config{
		Arch: "llama", Vocab: 64, Context: 32, Embd: 32, FF: 48, Layers: 2, Heads: 4, KVHeads: 2, HeadSize: 8, RMSEps: 1e-5,
		RoPE: ggml.RoPE{Dims: 8, Mode: ggml.RoPENorm, FreqBase: 10000, FreqScale: 1, TrainedCtx: 32, AttnFactor: 1, BetaFast: 32, BetaSlow: 1},
	}, nil, 5))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func weights(m *model.Model) []*ggml.Tensor {
	var list []*ggml.Tensor
	for w := range m.Weights() {
		list = append(list, w)
	}
	return list
}

// pattern returns a data set that can be learned: each token determines the next.
func pattern(samples, length int) *data.Dataset {
	return data.New(length, patternSamples(samples, length))
}

func patternSamples(n, length int) []data.Sample {
	rng := rand.New(rand.NewPCG(9, 9))
	next := rng.Perm(64)
	var list []data.Sample
	for range n {
		s := data.Sample{Tokens: []int32{int32(rng.IntN(64))}}
		for range length {
			s.Tokens = append(s.Tokens, int32(next[s.Tokens[len(s.Tokens)-1]]))
		}
		list = append(list, s)
	}
	return list
}

func options(steps int) train.Options {
	return train.Options{
		Schedule: train.Schedule{Peak: 0.01, Warmup: 2, Steps: steps}, AdamW: train.DefaultAdamW(),
		Batch: 4, Accumulate: 1, Seed: 3, Threads: 2,
	}
}

func newTrainer(t *testing.T, m *model.Model, d *data.Dataset, o train.Options) *train.Trainer {
	t.Helper()
	tr := need.Value(train.New(m, train.Trainables{ModelWeights: weights(m)}, d, o))(t)
	t.Cleanup(func() { tr.Close() })
	return tr
}

// snapshot returns the bytes of all parameters.
func snapshot(t *testing.T, m *model.Model) []byte {
	t.Helper()
	var all bytes.Buffer
	for _, w := range weights(m) {
		raw := make([]byte, w.NumBytes())
		_, err := w.ReadAt(raw, 0)
		require.NoError(t, err)
		all.Write(raw)
	}
	return all.Bytes()
}

func TestTrainingLearns(t *testing.T) {
	m := tinyModel(t)
	d := pattern(64, 16)
	tr := newTrainer(t, m, d, options(120))
	before := need.Value(tr.Evaluate(context.Background(), d.Limit(10)))(t)
	require.InDelta(t, math.Log(64), before.Loss, 0.05, "a fresh model knows nothing")
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
	after := need.Value(tr.Evaluate(context.Background(), d.Limit(10)))(t)
	require.Less(t, after.Loss, 0.3)
	require.Len(t, tr.History, 120)
}

// A step of several batches equals a step with one batch of all samples.
func TestAccumulation(t *testing.T) {
	samples := patternSamples(8, 12)
	samples[1].Tokens = samples[1].Tokens[:5] // the mean is over tokens, not samples
	d := data.New(12, samples)
	var losses [][]train.StepMetrics
	for _, shape := range [][2]int{{8, 1}, {2, 4}} {
		m := tinyModel(t)
		o := options(3)
		o.Batch, o.Accumulate = shape[0], shape[1]
		tr := newTrainer(t, m, d, o)
		require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
		losses = append(losses, tr.History)
	}
	for i := range losses[0] {
		require.InEpsilon(t, losses[0][i].Loss, losses[1][i].Loss, 1e-5)
		require.InEpsilon(t, losses[0][i].GradNorm, losses[1][i].GradNorm, 1e-4)
	}
}

func checkpointing(on bool) train.Checkpointing {
	if on {
		return train.CheckpointingOn
	}
	return train.CheckpointingOff
}

// Gradient checkpointing changes memory, not results.
func TestGradientCheckpointing(t *testing.T) {
	d := pattern(8, 16)
	var norms, memory []float64
	for _, on := range []bool{false, true} {
		o := options(2)
		o.Checkpointing = checkpointing(on)
		tr := newTrainer(t, tinyModel(t), d, o)
		require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
		norms = append(norms, tr.History[1].GradNorm)
		memory = append(memory, float64(tr.Memory().Total()))
	}
	require.InEpsilon(t, norms[0], norms[1], 1e-6)
	require.Less(t, memory[1], memory[0])
}

// A run that is stopped anywhere and resumed ends with the same bytes as an uninterrupted one.
func TestResumeIsTheSameRun(t *testing.T) {
	d := pattern(20, 12)
	const steps = 9
	whole := tinyModel(t)
	require.NoError(t, newTrainer(t, whole, d, options(steps)).Run(context.Background(), train.RunOptions{EvalData: d.Limit(3), EvalEvery: 4}))
	want := snapshot(t, whole)

	path := filepath.Join(t.TempDir(), "run.gguf")
	ctx, cancel := context.WithCancel(context.Background())
	first := newTrainer(t, tinyModel(t), d, options(steps))
	err := first.Run(ctx, train.RunOptions{
		OnSave: train.Saving(first, path), SaveEvery: 2, EvalData: d.Limit(3), EvalEvery: 4,
		OnStep: func(p train.StepMetrics) {
			if p.Step == 5 {
				cancel()
			}
		},
	})
	require.ErrorIs(t, err, train.ErrStopped)

	m := tinyModel(t)
	second := newTrainer(t, m, d, options(steps))
	require.NoError(t, second.LoadCheckpoint(path))
	require.Equal(t, 5, second.Steps())
	require.NoError(t, second.Run(context.Background(), train.RunOptions{OnSave: train.Saving(second, path), EvalData: d.Limit(3), EvalEvery: 4}))
	require.True(t, bytes.Equal(want, snapshot(t, m)))
	require.Len(t, second.History, steps)
	require.Len(t, second.Evaluations, 4) // at steps 0, 4, 8, 9

	// Resuming from the last checkpoint leaves nothing to do.
	third := newTrainer(t, tinyModel(t), d, options(steps))
	require.NoError(t, third.LoadCheckpoint(path))
	require.True(t, third.Done())
}

// An interrupted step leaves the parameters unchanged.
func TestInterruptedStep(t *testing.T) {
	m := tinyModel(t)
	tr := newTrainer(t, m, pattern(20, 12), options(5))
	_, err := tr.Step(context.Background())
	require.NoError(t, err)
	before := snapshot(t, m)
	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("no more time")
	cancel(cause)
	_, err = tr.Step(ctx)
	require.ErrorIs(t, err, cause)
	require.True(t, bytes.Equal(before, snapshot(t, m)))
	require.Equal(t, 1, tr.Steps())
	_, err = tr.Step(context.Background())
	require.NoError(t, err)
}

func TestCheckpointOfAnotherRun(t *testing.T) {
	d := pattern(20, 12)
	path := filepath.Join(t.TempDir(), "run.gguf")
	tr := newTrainer(t, tinyModel(t), d, options(5))
	_, err := tr.Step(context.Background())
	require.NoError(t, err)
	require.NoError(t, tr.SaveCheckpoint(path))

	o := options(5)
	o.Seed = 4
	o.Schedule.Peak = 0.02
	m := tinyModel(t)
	other := newTrainer(t, m, d, o)
	before := snapshot(t, m)
	err = other.LoadCheckpoint(path)
	require.EqualError(t, err, path+" belongs to another run: seed was 3, is 4; use the settings of that run, or start a new one")
	require.True(t, bytes.Equal(before, snapshot(t, m)))

	whole := need.Value(os.ReadFile(path))(t)
	require.NoError(t, os.WriteFile(path, whole[:len(whole)-100], 0o600))
	require.ErrorContains(t, tr.LoadCheckpoint(path), path)
	require.Error(t, tr.LoadCheckpoint(filepath.Join(t.TempDir(), "none")))
	require.Error(t, tr.SaveCheckpoint(filepath.Join(t.TempDir(), "no", "folder", "x")))
}

func TestDivergence(t *testing.T) {
	m := tinyModel(t)
	nan := []float32{float32(math.NaN())}
	w := m.Weight("blk.1.ffn_up.weight")
	raw := need.Value(ggml.Read[float32](w))(t)
	require.NoError(t, ggml.Write(w, append(nan, raw[1:]...)))
	tr := newTrainer(t, m, pattern(4, 8), options(5))
	_, err := tr.Step(context.Background())
	require.ErrorIs(t, err, train.ErrDiverged)
	require.EqualError(t, err, "training diverged: step 1: the loss is NaN, the norm of the gradient NaN: the model's weight blk.1.ffn_up.weight holds NaN; use an undamaged file of the model")
	require.Zero(t, tr.Steps())
}

func TestNothingToLearn(t *testing.T) {
	samples := patternSamples(4, 8)
	for i := range samples {
		samples[i].LossWeights = make([]float32, 8)
	}
	tr := newTrainer(t, tinyModel(t), data.New(8, samples), options(5))
	_, err := tr.Step(context.Background())
	require.ErrorContains(t, err, "no token of its rows is trained")
}

// Faults of a data set are found before the run begins.
func TestDatasetErrors(t *testing.T) {
	m := tinyModel(t)
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	trained := newTrainer(t, m, pattern(2, 4), options(3))
	for want, sample := range map[string]data.Sample{
		"sample 2 of the data set: token 1 is 64; the vocabulary has 64": {Tokens: []int32{1, 64, 2}},
		"token 0 is -1":                         {Tokens: []int32{-1, 2}},
		"it has 6 tokens; at most 5 fit":        {Tokens: make([]int32, 6)},
		"it has 3 weights for 2 predicted":      {Tokens: []int32{1, 2, 3}, LossWeights: []float32{1, 1, 1}},
		"it has 1 weight for 2 predicted":       {Tokens: []int32{1, 2, 3}, LossWeights: []float32{1}},
		"weight 1 is NaN":                       {Tokens: []int32{1, 2, 3}, LossWeights: []float32{1, nan}},
		"weight 0 is +Inf":                      {Tokens: []int32{1, 2}, LossWeights: []float32{inf}},
		"weight 0 is -1; it must be finite and": {Tokens: []int32{1, 2}, LossWeights: []float32{-1}},
	} {
		d := data.New(4, append(patternSamples(2, 4), sample))
		_, err := train.New(m, train.Trainables{ModelWeights: weights(m)}, d, options(3))
		require.ErrorContains(t, err, want)
		_, err = trained.Evaluate(context.Background(), d)
		require.ErrorContains(t, err, want)
	}
	for _, d := range []*data.Dataset{nil, {Length: 4}} {
		_, err := train.New(m, train.Trainables{ModelWeights: weights(m)}, d, options(3))
		require.EqualError(t, err, "the data set has no samples")
	}
}

// A run that is interrupted after its last step is complete.
func TestInterruptAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.gguf")
	for _, valid := range []*data.Dataset{nil, pattern(4, 8)} {
		tr := newTrainer(t, tinyModel(t), pattern(20, 12), options(3))
		ctx, cancel := context.WithCancel(context.Background())
		err := tr.Run(ctx, train.RunOptions{OnSave: train.Saving(tr, path), EvalData: valid, OnStep: func(p train.StepMetrics) {
			if p.Step == 3 {
				cancel()
			}
		}})
		require.NoError(t, err)
		require.True(t, tr.Done())
		again := newTrainer(t, tinyModel(t), pattern(20, 12), options(3))
		require.NoError(t, again.LoadCheckpoint(path))
		require.True(t, again.Done())
	}
}

func TestOptionErrors(t *testing.T) {
	m := tinyModel(t)
	for want, change := range map[string]func(*train.Options){
		"is empty":      func(o *train.Options) { o.Batch = 0 },
		"0 steps":       func(o *train.Options) { o.Schedule.Steps = 0 },
		"learning rate": func(o *train.Options) { o.Schedule.Peak = -1 },
		"β₁ is 1":       func(o *train.Options) { o.AdamW.Beta1 = 1 },
		"β₂ -0.1;":      func(o *train.Options) { o.AdamW.Beta2 = -0.1 },
		// Values that are 1, 0 or infinite in single precision, in which the optimiser computes.
		"β₁ is 0.99999998": func(o *train.Options) { o.AdamW.Beta1 = 0.99999998 },
		"β₂ 0.99999998; they must be in [0, 1), also when rounded to single precision: at most 0.9999999": func(o *train.Options) { o.AdamW.Beta2 = 0.99999998 },
		"ε is 1e-46":                    func(o *train.Options) { o.AdamW.Epsilon = 1e-46 },
		"learning rate goes from 1e+39": func(o *train.Options) { o.Schedule.Peak = 1e39 },
		"learning rate goes from 1e-46": func(o *train.Options) { o.Schedule.Peak = 1e-46 },
		"the weight decay 1e+39":        func(o *train.Options) { o.AdamW.Decay = 1e39 },
		"0 steps and -1 epochs":         func(o *train.Options) { o.Epochs = -1; o.Schedule.Steps = 0 },
		"gradient clip -1":              func(o *train.Options) { o.AdamW.Clip = -1 },
		"warm-up is -1":                 func(o *train.Options) { o.Schedule.Warmup = -1 },
		"to +Inf":                       func(o *train.Options) { o.Schedule.Floor = math.Inf(1) },
		"decay +Inf":                    func(o *train.Options) { o.AdamW.Decay = math.Inf(1) },
		"LoRAPlus is -1":                func(o *train.Options) { o.LoRAPlus = -1 },
		"LoRAPlus is 1e+38":             func(o *train.Options) { o.Schedule.Peak, o.LoRAPlus = 100, 1e38 },
		"DecayMinDims is -1":            func(o *train.Options) { o.AdamW.DecayMinDims = -1 },
		"the checkpointing is 3":        func(o *train.Options) { o.Checkpointing = 3 },
		"the convergence has Patience -1; it must be finite, and positive, or 0": func(o *train.Options) { o.Convergence.Patience = -1 },
		"clip +Inf":   func(o *train.Options) { o.AdamW.Clip = math.Inf(1) },
		"is too long": func(o *train.Options) { o.Accumulate = math.MaxInt },
		"a step of 3 batches of 349526 rows is too long; the limit is 1048576 rows": func(o *train.Options) { o.Batch, o.Accumulate = 349526, 3 },
		"a step of 1 batches of 2147483647 rows":                                    func(o *train.Options) { o.Batch = math.MaxInt32 },
		"a run of 4294967296 steps is too long; the limit is 2147483647":            func(o *train.Options) { o.Schedule.Steps = 1 << 32 },
		"threads": func(o *train.Options) { o.Threads = -1 },
		// Zero values are errors that name what to set.
		"a step of 0 batches of 0 rows is empty; Batch and Accumulate must be at least 1":          func(o *train.Options) { *o = train.Options{} },
		"a run of 0 steps and 0 epochs is empty; set Schedule.Steps or Epochs":                     func(o *train.Options) { o.Schedule = train.Schedule{} },
		"AdamW is a zero value; DefaultAdamW has the usual settings":                               func(o *train.Options) { o.AdamW = train.AdamW{} },
		"the learning rate goes from 0 to 0; Peak must be positive, such as 2e-4, and both finite": func(o *train.Options) { o.Schedule.Peak = 0 },
	} {
		o := options(3)
		change(&o)
		_, err := train.New(m, train.Trainables{ModelWeights: weights(m)}, pattern(2, 4), o)
		require.ErrorContains(t, err, want)
	}
	_, err := train.New(m, train.Trainables{}, pattern(2, 4), options(3))
	require.ErrorContains(t, err, "no parameters")
}

func TestSchedule(t *testing.T) {
	s := train.Schedule{Peak: 1, Floor: 0.1, Warmup: 4, Steps: 104}
	require.InDelta(t, 0.25, s.At(1), 1e-12)
	require.InDelta(t, 1, s.At(4), 1e-12)
	require.InDelta(t, 1, s.At(5), 1e-12)
	require.InDelta(t, 0.55, s.At(55), 1e-12)
	require.Greater(t, s.At(104), 0.1)
	require.InDelta(t, 0.1, s.At(105), 1e-12)
	require.InDelta(t, 0.1, s.At(200), 1e-12)
	require.InDelta(t, 1, train.Schedule{Peak: 1, Steps: 1, Warmup: 1}.At(1), 1e-12)
	require.InDelta(t, 1, train.Schedule{Peak: 1, Steps: 1}.At(1), 1e-12)
}
