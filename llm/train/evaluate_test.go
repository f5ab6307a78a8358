package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// The memory of evaluations counts, and is that of the first one from then on.
func TestEvaluationMemory(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(16, 16), options(20))
	ctx := context.Background()
	_, err := tr.Step(ctx)
	require.NoError(t, err)
	before := tr.Memory()
	valid := pattern(8, 24)
	first, err := tr.Evaluate(ctx, valid)
	require.NoError(t, err)
	with := tr.Memory()
	const logits = 4 * 24 * 64 * 4 // of a batch, the least that an evaluation keeps
	require.Greater(t, with, before+logits)
	objects := ggml.OpenObjects()
	for range 3 {
		again, err := tr.Evaluate(ctx, valid)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}
	require.Equal(t, with, tr.Memory())
	require.Equal(t, objects, ggml.OpenObjects())

	// Other lengths and adapters have graphs of their own, of which few are kept.
	for length := 2; length < 12; length++ {
		_, err := tr.Evaluate(ctx, pattern(8, length))
		require.NoError(t, err)
	}
	few := tr.Memory()
	require.Less(t, few, before+4*(with-before))
	again, err := tr.Evaluate(ctx, valid)
	require.NoError(t, err)
	require.Equal(t, first, again)
	plain, err := tr.EvaluateWith(ctx, nil, valid)
	require.NoError(t, err)
	require.NotEqual(t, first, plain)
	half, err := tr.EvaluateWith(ctx, a.Weights(0.5), valid)
	require.NoError(t, err)
	require.NotContains(t, []float64{first, plain}, half)
	again, err = tr.Evaluate(ctx, valid)
	require.NoError(t, err)
	require.Equal(t, first, again)
}

// A graph that is kept computes with the parameters as they are.
func TestEvaluationSeesTraining(t *testing.T) {
	m := tinyModel(t)
	d := pattern(16, 8)
	tr := adapterTrainer(t, m, newAdapter(t, m, 1), d, options(20))
	before, err := tr.Evaluate(context.Background(), d)
	require.NoError(t, err)
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
	after, err := tr.Evaluate(context.Background(), d)
	require.NoError(t, err)
	require.Less(t, after, before)
}

// What is closed says so, and what is nil too.
func TestTrainerOfClosedObjects(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	d := pattern(8, 8)
	ctx := context.Background()
	tr := adapterTrainer(t, m, a, d, options(3))
	require.NoError(t, tr.Close())
	require.NoError(t, tr.Close())
	for name, use := range map[string]func() error{
		"Step":           func() error { _, err := tr.Step(ctx); return err },
		"Evaluate":       func() error { _, err := tr.Evaluate(ctx, d); return err },
		"Run":            func() error { return tr.Run(ctx, train.RunOptions{}) },
		"SaveCheckpoint": func() error { return tr.SaveCheckpoint(t.TempDir() + "/run.gguf") },
		"LoadCheckpoint": func() error { return tr.LoadCheckpoint(t.TempDir() + "/run.gguf") },
	} {
		require.ErrorIs(t, use(), ggml.ErrClosed, name)
		require.EqualError(t, use(), "trainer: use of a closed object", name)
	}

	closed := tinyModel(t)
	open := adapterTrainer(t, closed, newAdapter(t, closed, 1), d, options(3))
	require.NoError(t, closed.Close())
	_, err := open.Step(ctx)
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = train.New(closed, train.Trainables{Weights: weights(m)}, d, options(3))
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = lora.New(closed, lora.Options{Rank: 1})
	require.ErrorIs(t, err, ggml.ErrClosed)
	path := t.TempDir() + "/adapter.gguf"
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	_, err = lora.Load(path, closed)
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Save(path, lora.SaveOptions{}), ggml.ErrClosed)
	require.EqualError(t, a.Save(path, lora.SaveOptions{}), "adapter "+path+": use of a closed object")

	var none *model.Model
	_, err = train.New(none, train.Trainables{}, d, options(3))
	require.EqualError(t, err, "the model is nil")
	_, err = lora.New(none, lora.Options{Rank: 1})
	require.EqualError(t, err, "the model is nil")
	_, err = lora.Load(path, none)
	require.EqualError(t, err, "the model is nil")
	_, err = train.New(m, train.Trainables{Weights: weights(m)}, (*data.Dataset)(nil), options(3))
	require.EqualError(t, err, "the data set has no samples")
}
