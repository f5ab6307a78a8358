package train

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// noisyRun trains with dropout and NEFTune.
func noisyRun(t *testing.T, m *model.Model, change func(o *Options)) *loraRun {
	t.Helper()
	o := runOptions()
	o.Dropout, o.NEFTune = 0.3, 5
	if change != nil {
		change(&o)
	}
	return newLoRARun(t, m, data.New(6, randomSamples(7, 6)), o, lora.Options{Rank: 2, Alpha: 4})
}

func trainSteps(t *testing.T, tr *Trainer, n int) {
	t.Helper()
	for range n {
		_, err := tr.Step(context.Background())
		require.NoError(t, err)
	}
}

// A resumed run has the noise of an uninterrupted one: everything in its checkpoint is equal, bit by
// bit.
func TestNoiseOfContinuedRun(t *testing.T) {
	m := tinyLoRAModel(t)
	whole := noisyRun(t, m, nil)
	trainSteps(t, whole.Trainer, 3)
	path := filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, whole.SaveCheckpoint(path))
	trainSteps(t, whole.Trainer, 3)

	continued := noisyRun(t, m, nil)
	require.NoError(t, continued.LoadCheckpoint(path))
	trainSteps(t, continued.Trainer, 3)
	require.Equal(t, stateOf(t, whole.Trainer), stateOf(t, continued.Trainer))

	for name, change := range map[string]func(o *Options){
		"no dropout":   func(o *Options) { o.Dropout = 0 },
		"no NEFTune":   func(o *Options) { o.NEFTune = 0 },
		"another seed": func(o *Options) { o.Seed = 4 },
	} {
		other := noisyRun(t, m, change)
		trainSteps(t, other.Trainer, 2) // in the first step B is zero, so A has no effect
		require.NotEqual(t, whole.History[1].Loss, other.History[1].Loss, name)
	}
}

// Dropout and NEFTune may change in a resumed run, which lists the change.
func TestNoiseCanChange(t *testing.T) {
	m := tinyLoRAModel(t)
	r := noisyRun(t, m, nil)
	trainSteps(t, r.Trainer, 1)
	path := filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, r.SaveCheckpoint(path))
	other := noisyRun(t, m, func(o *Options) { o.Dropout, o.NEFTune = 0, 10 })
	require.NoError(t, other.LoadCheckpoint(path))
	require.Equal(t, []Difference{{"dropout", "dropout", "0.3", "0"}, {"alpha of NEFTune", "alpha of NEFTune", "5", "10"}}, other.Changes())
	trainSteps(t, other.Trainer, 1)
}

// The noise of a step does not depend on its division into batches, nor on gradient checkpointing.
func TestNoiseOfAccumulation(t *testing.T) {
	m := tinyLoRAModel(t)
	var want []StepMetrics
	for _, change := range []func(o *Options){
		func(o *Options) { o.Batch, o.Accumulate = 4, 1 },
		func(o *Options) { o.Batch, o.Accumulate = 1, 4 },
		func(o *Options) { o.Batch, o.Accumulate, o.Checkpointing = 2, 2, CheckpointingOn },
	} {
		r := noisyRun(t, m, change)
		trainSteps(t, r.Trainer, 3)
		if want == nil {
			want = r.History
		}
		for i, p := range want {
			require.InEpsilon(t, p.Loss, r.History[i].Loss, 1e-5)
			require.InEpsilon(t, p.GradNorm, r.History[i].GradNorm, 1e-4)
		}
	}
}

// Evaluations have no noise.
func TestEvaluationWithoutNoise(t *testing.T) {
	m := tinyLoRAModel(t)
	evaluate := func(r *loraRun) any {
		return need.Value(r.Evaluate(context.Background(), data.New(6, randomSamples(5, 6))))(t)
	}
	noisy := noisyRun(t, m, nil)
	quiet := noisyRun(t, m, func(o *Options) { o.Dropout, o.NEFTune = 0, 0 })
	require.Equal(t, evaluate(quiet), evaluate(noisy))
}

func TestNoiseFaults(t *testing.T) {
	m := tinyLoRAModel(t)
	a := need.Value(lora.New(m, lora.Options{Rank: 2}))(t)
	defer a.Close()
	for want, change := range map[string]func(o *Options){
		"the dropout is 1.5; it must be at least 0 and below 1":             func(o *Options) { o.Dropout = 1.5 },
		"the NEFTune alpha is -2; it must be a finite number of at least 0": func(o *Options) { o.NEFTune = -2 },
	} {
		o := runOptions()
		change(&o)
		_, err := New(m, Trainables{Adapters: a.WithScale(1)}, data.New(6, randomSamples(7, 6)), o)
		require.EqualError(t, err, want)
	}
}
