package train_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/train"
)

// noise returns data without structure, so that fitting it does not generalise.
func noise(seed uint64, samples, length int) *data.Dataset {
	rng := rand.New(rand.NewPCG(seed, seed))
	var list []data.Sample
	for range samples {
		s := data.Sample{Tokens: make([]int32, length+1)}
		for i := range s.Tokens {
			s.Tokens[i] = int32(rng.IntN(64))
		}
		list = append(list, s)
	}
	return data.New(length, list)
}

func withPatience(steps, patience int) train.Options {
	o := options(steps)
	o.Convergence.Patience = patience
	return o
}

// A run that overfits ends early, with its best result saved, and ends at once when resumed. With more
// patience it continues like a run that always had it. The best evaluation is before the end.
func TestEarlyStopping(t *testing.T) {
	d, valid, ctx := noise(1, 4, 8), noise(2, 8, 8), context.Background()
	path := filepath.Join(t.TempDir(), "run.gguf")
	var saved int
	run := func(tr *train.Trainer) []int {
		var best []int
		saved = 0
		require.NoError(t, tr.Run(ctx, train.RunOptions{
			EvalData: valid, EvalEvery: 3,
			OnSave: func() error {
				require.NotEmpty(t, tr.Ended(), "the end is known when the result is saved")
				saved++
				return tr.SaveCheckpoint(path)
			},
			OnBest: func(e train.Evaluation) error {
				got, ok := tr.Best()
				require.True(t, ok)
				require.Equal(t, e, got)
				best = append(best, e.Step)
				return nil
			},
		}))
		return best
	}
	tr := newTrainer(t, tinyModel(t), d, withPatience(40, 2))
	best := run(tr)
	require.Equal(t, "the validation loss has not improved for 2 evaluations", tr.Ended())
	require.True(t, tr.Done())
	require.Less(t, tr.Steps(), 40)
	require.Equal(t, tr.Steps(), tr.Evaluations[len(tr.Evaluations)-1].Step)
	require.Equal(t, 1, saved)
	last, _ := tr.Best()
	require.Equal(t, last.Step, best[len(best)-1])
	require.Equal(t, tr.Steps()-6, last.Step)

	again := newTrainer(t, tinyModel(t), d, withPatience(40, 2))
	require.NoError(t, again.LoadCheckpoint(path))
	require.True(t, again.Done())
	require.Empty(t, run(again))
	require.Equal(t, tr.History, again.History)
	require.Equal(t, tr.Evaluations, again.Evaluations)

	patient := newTrainer(t, tinyModel(t), d, withPatience(40, 4))
	require.NoError(t, patient.LoadCheckpoint(path))
	require.Equal(t, []train.Difference{{ID: "patience", Setting: "patience", Was: "2", Is: "4"}}, patient.Changes())
	require.Empty(t, patient.Ended())
	kept, ok := patient.Best()
	require.True(t, ok)
	require.Equal(t, last, kept)
	require.Empty(t, run(patient), "nothing after it is better")
	always := newTrainer(t, tinyModel(t), d, withPatience(40, 4))
	run(always)
	require.Equal(t, always.History, patient.History)
	require.Equal(t, always.Evaluations, patient.Evaluations)
	require.Equal(t, always.Ended(), patient.Ended())
}

// Convergence of the training loss also ends a run, after a last evaluation.
func TestRunConverges(t *testing.T) {
	o := options(200)
	o.Schedule = train.Schedule{Shape: train.Constant, Peak: 1e-30, Steps: 200} // changes nothing
	o.Convergence.MaxNoImprovement = 30
	d := pattern(4, 8) // one batch
	tr := newTrainer(t, tinyModel(t), d, o)
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{EvalData: d}))
	require.Contains(t, tr.Ended(), "the training loss has reached no new low for ")
	require.Less(t, tr.Steps(), 60)
	require.Len(t, tr.Evaluations, 2)
	require.Equal(t, tr.Steps(), tr.Evaluations[1].Step)
}

// A limit ends the run like its last step, and the next Run continues. Tokens count from the
// beginning, time from the start of this Run.
func TestLimits(t *testing.T) {
	d, ctx := pattern(8, 8), context.Background()
	path := filepath.Join(t.TempDir(), "run.gguf")
	start := func() *train.Trainer { return newTrainer(t, tinyModel(t), d, options(12)) }
	whole := start()
	require.NoError(t, whole.Run(ctx, train.RunOptions{}))
	require.Equal(t, "all 12 steps are done", whole.Ended())

	tr := start()
	limited := train.RunOptions{OnSave: func() error { return tr.SaveCheckpoint(path) }, EvalData: d, MaxTokens: testutil.Ptr(100)} // 32 per step
	require.NoError(t, tr.Run(ctx, limited))
	require.Equal(t, "the limit of 100 tokens is reached", tr.Ended())
	require.Equal(t, 4, tr.Steps())
	require.Equal(t, 4, tr.Evaluations[1].Step)

	tr = start()
	require.NoError(t, tr.LoadCheckpoint(path))
	require.Empty(t, tr.Ended())
	require.NoError(t, tr.Run(ctx, limited))
	require.Equal(t, "the limit of 100 tokens is reached", tr.Ended())
	require.Equal(t, 4, tr.Steps(), "those before count")
	limited.MaxTokens = testutil.Ptr(160)
	require.NoError(t, tr.Run(ctx, limited))
	require.Equal(t, 5, tr.Steps())

	steps := 0
	limited.MaxTokens, limited.MaxDuration = nil, testutil.Ptr(time.Minute)
	limited.OnStep = func(train.StepMetrics) { steps++ }
	require.NoError(t, tr.Run(ctx, limited))
	require.Equal(t, "all 12 steps are done", tr.Ended())
	require.Equal(t, 7, steps)
	require.Equal(t, whole.History, tr.History)

	tr = start()
	require.NoError(t, tr.Run(ctx, train.RunOptions{MaxDuration: testutil.Ptr(100 * time.Millisecond), OnStep: func(train.StepMetrics) { time.Sleep(100 * time.Millisecond) }}))
	require.Equal(t, "the limit of 100ms is reached", tr.Ended())
	require.Equal(t, 1, tr.Steps())

	// The remaining budget may be zero.
	for ended, none := range map[string]train.RunOptions{
		"the limit of 0 tokens is reached": {MaxTokens: testutil.Ptr(0)},
		"the limit of 0s is reached":       {MaxDuration: testutil.Ptr(time.Duration(0))},
	} {
		tr = start()
		require.NoError(t, tr.Run(ctx, none))
		require.Equal(t, ended, tr.Ended())
		require.Zero(t, tr.Steps())
	}
}

// A run killed while it saves its best adapter, or after that and before the checkpoint, ends with the
// same best adapter as an uninterrupted one.
func TestBestSurvivesKills(t *testing.T) {
	need.Time(t, "kills many processes")
	d, valid, ctx := pattern(16, 8), pattern(8, 8).Limit(4), context.Background()
	m := tinyModel(t)
	var bestFile []byte // written by OnBest
	folder := t.TempDir()
	options := func(tr *train.Trainer, path string, onBest func(e train.Evaluation) error) train.RunOptions {
		return train.RunOptions{OnSave: train.Saving(tr, path), SaveEvery: 3, EvalData: valid, EvalEvery: 2, OnBest: onBest}
	}
	start := func() *train.Trainer {
		m = tinyModel(t)
		o := train.Options{Schedule: train.Schedule{Peak: 0.05, Steps: 8}, AdamW: train.DefaultAdamW(), Batch: 4, Accumulate: 1, Seed: 3, Threads: 2}
		return newTrainer(t, m, d, o)
	}
	save := func(train.Evaluation) error {
		bestFile = snapshot(t, m)
		return nil
	}
	whole := start()
	require.NoError(t, whole.Run(ctx, options(whole, filepath.Join(folder, "whole.gguf"), save)))
	want, evaluations := bestFile, whole.Evaluations
	require.Len(t, evaluations, 5)

	broken := errors.New("no space left")
	for kill := range evaluations {
		for _, after := range []bool{false, true} {
			bestFile = nil
			path := filepath.Join(folder, "run.gguf")
			dying := start()
			require.NoError(t, dying.SaveCheckpoint(path))
			n := 0
			err := dying.Run(ctx, options(dying, path, func(e train.Evaluation) error {
				if n++; n <= kill {
					return save(e)
				}
				if after {
					require.NoError(t, save(e))
				}
				return broken
			}))
			if err != nil {
				require.ErrorIs(t, err, broken)
			}
			resumed := start()
			require.NoError(t, resumed.LoadCheckpoint(path))
			require.NoError(t, resumed.Run(ctx, options(resumed, path, save)))
			require.Equal(t, evaluations, resumed.Evaluations)
			require.True(t, bytes.Equal(want, bestFile), "killed in evaluation %d, after the write: %v", kill, after)
		}
	}
}
