package train_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/train"
)

// A run whose last step makes the adapter non-finite fails, although no loss has been computed after
// that step.
func TestLastStepDiverges(t *testing.T) {
	m := tinyModel(t)
	for _, valid := range []*data.Dataset{nil, pattern(4, 8)} {
		a := newAdapter(t, m, 1)
		o := options(1)
		o.Schedule = train.Schedule{Peak: 3e38, Steps: 1}
		tr := adapterTrainer(t, m, a, pattern(8, 8), o)
		path := filepath.Join(t.TempDir(), "run.gguf")
		err := tr.Run(context.Background(), train.RunOptions{OnSave: train.Saving(tr, path), EvalData: valid})
		require.ErrorIs(t, err, train.ErrDiverged)
		require.ErrorContains(t, err, "after step 1 ")
		require.ErrorContains(t, err, "lower the learning rate")
		require.True(t, tr.Done())
		require.NoFileExists(t, path)
	}
}

// If a later step makes the parameters non-finite, the last good checkpoint remains, and the error
// names it: in the middle of the run, at its end, and when the run is stopped.
func TestGoodCheckpointStays(t *testing.T) {
	for _, steps := range []int{3, 4, 9} { // at the end; before a checkpoint is due; far from the end
		m := tinyModel(t)
		a := newAdapter(t, m, 1)
		d := pattern(8, 8)
		path := filepath.Join(t.TempDir(), "run.gguf")
		o := options(2)
		tr := adapterTrainer(t, m, a, d, o)
		require.NoError(t, tr.Run(context.Background(), train.RunOptions{OnSave: train.Saving(tr, path)}))
		good := need.Value(os.ReadFile(path))(t)

		o.Schedule = train.Schedule{Peak: 3e38, Floor: 3e38, Steps: steps}
		tr = adapterTrainer(t, m, newAdapter(t, m, 1), d, o)
		require.NoError(t, tr.LoadCheckpoint(path))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		err := tr.Run(ctx, train.RunOptions{OnSave: train.Saving(tr, path), SaveEvery: 3, OnStep: func(train.StepMetrics) {
			if steps == 9 {
				cancel()
			}
		}})
		require.ErrorIs(t, err, train.ErrDiverged)
		require.ErrorContains(t, err, "; the last good checkpoint is "+path+", of step 2")
		now := need.Value(os.ReadFile(path))(t)
		require.Equal(t, good, now)
	}
}

// Non-finite parameters are in no checkpoint and no adapter.
func TestNothingNonFiniteIsSaved(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(8, 8), options(4))
	_, err := tr.Step(context.Background())
	require.NoError(t, err)
	b := a.Pairs()[1].B
	values := make([]float32, b.NumElements())
	values[len(values)-1] = float32(math.Inf(1))
	require.NoError(t, ggml.Write(b, values))
	path := filepath.Join(t.TempDir(), "out.gguf")
	err = tr.SaveCheckpoint(path)
	require.ErrorIs(t, err, train.ErrDiverged)
	require.EqualError(t, err, "training diverged: after step 1 "+b.Name()+" holds +Inf; lower the learning rate")
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{}), "tensor \""+b.Name()+"\"")
	require.ErrorContains(t, a.Save(path, lora.SaveOptions{}), "is +Inf; values must be finite")
	require.NoFileExists(t, path)
	_, err = tr.Step(context.Background())
	require.ErrorContains(t, err, "lower the learning rate")
}

// A moment overflows before its parameter does. Such a moment is not saved, because it could not be
// resumed.
func TestNoMomentOverflows(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(8, 8), options(4))
	_, err := tr.Step(context.Background())
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "out.gguf")
	for _, moment := range []string{"first", "second"} {
		x, name := train.Moments(tr, 1)[moment], a.Pairs()[0].B.Name()
		good := need.Value(ggml.Read[float32](x))(t)
		require.NoError(t, ggml.Write(x, append([]float32{float32(math.Inf(1))}, good[1:]...)))
		err := tr.SaveCheckpoint(path)
		require.ErrorIs(t, err, train.ErrDiverged)
		require.EqualError(t, err, "training diverged: after step 1 the "+moment+" moment of "+name+" holds +Inf; lower the learning rate")
		require.NoFileExists(t, path)
		require.NoError(t, ggml.Write(x, good))
	}
	require.NoError(t, tr.SaveCheckpoint(path))
}

// The error blames a damaged base weight, not the learning rate.
func TestDamagedBaseIsBlamed(t *testing.T) {
	m := tinyModel(t)
	w := m.Weight("blk.0.attn_v.weight")
	values, err := ggml.Read[float32](w)
	require.NoError(t, err)
	values[77] = float32(math.NaN())
	require.NoError(t, ggml.Write(w, values))
	tr := adapterTrainer(t, m, newAdapter(t, m, 1), pattern(8, 8), options(4))
	for _, valid := range []*data.Dataset{nil, pattern(4, 8)} {
		err = tr.Run(context.Background(), train.RunOptions{EvalData: valid})
		require.ErrorIs(t, err, train.ErrDiverged)
		require.ErrorContains(t, err, ": the model's weight blk.0.attn_v.weight holds NaN; use an undamaged file of the model")
		require.NotContains(t, err.Error(), "learning rate")
	}
	// Finite weights may also give non-finite results; another compute type does not help then.
	for i := range values {
		values[i] = 3e38
	}
	require.NoError(t, ggml.Write(w, values))
	_, err = tr.Step(context.Background())
	require.ErrorContains(t, err, " before anything was trained: the cause is the model itself")
	if !kernels.HasBF16() {
		return
	}
	o := options(4)
	o.ComputeType = ggml.BF16
	tr = adapterTrainer(t, m, newAdapter(t, m, 1), pattern(8, 8), o)
	for _, valid := range []*data.Dataset{nil, pattern(4, 8)} {
		err = tr.Run(context.Background(), train.RunOptions{EvalData: valid})
		require.ErrorContains(t, err, " before anything was trained: the cause is the model itself")
		require.NotContains(t, err.Error(), "compute type")
	}
}
