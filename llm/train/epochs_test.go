package train_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

func TestTotalSteps(t *testing.T) {
	m := tinyModel(t)
	for _, c := range []struct{ epochs, steps, samples, want int }{
		{1, 0, 10, 3},
		{2, 0, 10, 5}, // the third step has samples of both epochs
		{2, 0, 8, 4},
		{2, 3, 10, 3},
		{1, 7, 10, 3},
		{0, 7, 10, 7},
		{math.MaxInt, 0, 10, math.MaxInt32},
	} {
		o := options(c.steps)
		o.Epochs, o.Batch, o.Accumulate = c.epochs, 2, 2
		tr := newTrainer(t, m, pattern(c.samples, 4), o)
		require.Equal(t, c.want, tr.TotalSteps(), "%+v", c)
	}
}

// The last step of the last epoch has only the remaining samples, weighted as a batch of their own: no
// sample is seen more often than Epochs says.
func TestLastStepOfAnEpoch(t *testing.T) {
	const length = 8
	samples := patternSamples(10, length)
	samples[0].Tokens = samples[0].Tokens[:3]
	d := data.New(length, samples)
	o := options(0)
	o.Epochs, o.Batch, o.Accumulate = 1, 4, 2
	m := tinyModel(t)
	tr := newTrainer(t, m, d, o)
	ctx := context.Background()
	_, err := tr.Step(ctx)
	require.NoError(t, err)
	require.False(t, tr.Done())

	order := data.Shuffler{Seed: o.Seed, N: d.Len()}
	rest := data.New(length, []data.Sample{samples[order.At(8)], samples[order.At(9)]})
	want := need.Value(tr.Evaluate(ctx, rest))(t)
	alone := options(1)
	alone.Batch = 2
	wantGrad := need.Value(newTrainer(t, twin(t, m), rest, alone).Step(ctx))(t)
	got := need.Value(tr.Step(ctx))(t)
	require.InEpsilon(t, want.Loss, got.Loss, 1e-6)
	require.InEpsilon(t, wantGrad.GradNorm, got.GradNorm, 1e-5)
	require.True(t, tr.Done())
	_, err = tr.Step(ctx)
	require.ErrorContains(t, err, "step 3: the run has completed its Epochs")

	// A second epoch begins with a full step.
	path := filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, tr.SaveCheckpoint(path))
	o.Epochs = 2
	longer := newTrainer(t, m, d, o)
	require.NoError(t, longer.LoadCheckpoint(path))
	require.Equal(t, 4, longer.TotalSteps(), "8 and 2 samples, as in the epoch before")
	require.Equal(t, []train.Difference{{ID: "steps", Setting: "steps", Was: "2", Is: "4"}}, longer.Changes())
	var full []data.Sample
	for i := range 8 {
		full = append(full, samples[order.At(10+i)])
	}
	want = need.Value(longer.Evaluate(ctx, data.New(length, full)))(t)
	got = need.Value(longer.Step(ctx))(t)
	require.InEpsilon(t, want.Loss, got.Loss, 1e-6)
}

// twin returns a model with the same weights.
func twin(t *testing.T, m *model.Model) *model.Model {
	t.Helper()
	other := tinyModel(t)
	for w := range m.Weights() {
		values := need.Value(ggml.Read[float32](w))(t)
		require.NoError(t, ggml.Write(other.Weight(w.Name()), values))
	}
	return other
}

// A run that is extended continues in the order of a run that had that length from the beginning.
func TestLongerRun(t *testing.T) {
	d := pattern(10, 8)
	run := func(o train.Options, path string) *train.Trainer {
		tr := newTrainer(t, tinyModel(t), d, o)
		if path != "" {
			require.NoError(t, tr.LoadCheckpoint(path))
		}
		return tr
	}
	constant := func(steps int) train.Options {
		o := options(steps)
		o.Schedule = train.Schedule{Peak: 0.01, Floor: 0.01, Steps: steps}
		return o
	}
	ctx := context.Background()
	whole := run(constant(8), "")
	require.NoError(t, whole.Run(ctx, train.RunOptions{}))
	path := filepath.Join(t.TempDir(), "run.gguf")
	short := run(constant(3), "")
	require.NoError(t, short.Run(ctx, train.RunOptions{OnSave: train.Saving(short, path)}))
	longer := run(constant(8), path)
	require.Equal(t, []train.Difference{{ID: "steps", Setting: "steps", Was: "3", Is: "8"}}, longer.Changes())
	require.NoError(t, longer.Run(ctx, train.RunOptions{}))
	require.Equal(t, whole.History, longer.History)

	shorter := run(constant(2), path)
	require.True(t, shorter.Done(), "three steps are done")
}
