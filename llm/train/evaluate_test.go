package train_test

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/train"
)

// Memory includes evaluations, and does not grow after the first one.
func TestEvaluationMemory(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(16, 16), options(20))
	ctx := context.Background()
	_, err := tr.Step(ctx)
	require.NoError(t, err)
	before := tr.Memory().Total()
	valid := pattern(8, 24)
	first := need.Value(tr.Evaluate(ctx, valid))(t)
	with := tr.Memory().Total()
	const logits = 4 * 24 * 64 * 4 // of one batch: the minimum that an evaluation keeps
	require.Greater(t, with, before+logits)
	objects := ggml.OpenObjects()
	for range 3 {
		again := need.Value(tr.Evaluate(ctx, valid))(t)
		require.Equal(t, first, again)
	}
	require.Equal(t, with, tr.Memory().Total())
	require.Equal(t, objects, ggml.OpenObjects())

	// Other lengths and adapters have their own graphs, of which few are cached.
	for length := 2; length < 12; length++ {
		_, err := tr.Evaluate(ctx, pattern(8, length))
		require.NoError(t, err)
	}
	few := tr.Memory().Total()
	require.Less(t, few, before+4*(with-before))
	again := need.Value(tr.Evaluate(ctx, valid))(t)
	require.Equal(t, first, again)
	plain := need.Value(tr.EvaluateWith(ctx, nil, valid))(t)
	require.NotEqual(t, first.Loss, plain.Loss)
	half := need.Value(tr.EvaluateWith(ctx, a.WithScale(0.5), valid))(t)
	require.NotContains(t, []float64{first.Loss, plain.Loss}, half.Loss)
	again = need.Value(tr.Evaluate(ctx, valid))(t)
	require.Equal(t, first, again)
}

// Loss and accuracy follow from the logits of a session: both over tokens with nonzero weight, but
// only the loss is weighted.
func TestEvaluationOfSession(t *testing.T) {
	m := tinyModel(t)
	samples := patternSamples(7, 12)
	samples[1].Tokens = samples[1].Tokens[:5]
	for i := range samples {
		weights := make([]float32, samples[i].Predicted())
		for j := range weights {
			weights[j] = float32((i + j) % 3)
		}
		samples[i].LossWeights = weights
	}
	d := data.New(12, samples)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(32, 12), options(40))
	ctx := context.Background()
	require.NoError(t, tr.Run(ctx, train.RunOptions{}))
	got := need.Value(tr.Evaluate(ctx, d))(t)

	s := need.Value(infer.NewSession(m, infer.SessionOptions{Adapters: a.WithScale(1), Threads: 1}))(t)
	defer s.Close()
	q := need.Value(s.NewSequence())(t)
	var loss, weight float64
	tokens, correct := 0, 0
	for _, sample := range samples {
		_, err := q.Rewind(0)
		require.NoError(t, err)
		logits := need.Value(q.DecodeAll(ctx, sample.Tokens[:len(sample.Tokens)-1]))(t)
		for i, row := range logits {
			w, next := float64(sample.LossWeights[i]), sample.Tokens[i+1]
			if w == 0 {
				continue
			}
			sum, best := 0.0, true
			for _, x := range row {
				sum += math.Exp(float64(x) - float64(row[next]))
				best = best && x <= row[next]
			}
			loss, weight, tokens = loss+w*math.Log(sum), weight+w, tokens+1
			if best {
				correct++
			}
		}
	}
	require.Greater(t, correct, tokens/5)
	require.Less(t, correct, tokens)
	require.Equal(t, train.Evaluation{Step: 40, Loss: got.Loss, Accuracy: float64(correct) / float64(tokens), Tokens: tokens}, got)
	require.InEpsilon(t, loss/weight, got.Loss, 1e-5)
	require.InEpsilon(t, math.Exp(loss/weight), got.Perplexity(), 1e-4)
}

// The tokens of a step are the trained ones; the tokens of its rows are all except padding.
func TestTokensOfSteps(t *testing.T) {
	samples := patternSamples(4, 8)
	samples[2].LossWeights = []float32{0, 0, 1, 2, 0, 0.5, 0, 0}
	samples[3].Tokens = samples[3].Tokens[:4]
	d := data.New(8, samples)
	o := options(2)
	o.Batch, o.Accumulate = 2, 2
	tr := newTrainer(t, tinyModel(t), d, o)
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
	for i, m := range tr.History {
		require.Equal(t, 8+8+3+3, m.Tokens)
		require.Equal(t, 8+8+8+3, m.RowTokens)
		require.Equal(t, float64(i+1), m.Epoch)
	}
}

// A cached graph uses the current parameters.
func TestEvaluationSeesTraining(t *testing.T) {
	m := tinyModel(t)
	d := pattern(16, 8)
	tr := adapterTrainer(t, m, newAdapter(t, m, 1), d, options(20))
	before := need.Value(tr.Evaluate(context.Background(), d))(t)
	require.NoError(t, tr.Run(context.Background(), train.RunOptions{}))
	after := need.Value(tr.Evaluate(context.Background(), d))(t)
	require.Less(t, after.Loss, before.Loss)
}

// Closed and nil objects are errors that say so.
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
	_, err = train.New(closed, train.Trainables{ModelWeights: weights(m)}, d, options(3))
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = lora.New(closed, lora.Options{Rank: 1})
	require.ErrorIs(t, err, ggml.ErrClosed)
	path := t.TempDir() + "/adapter.gguf"
	require.NoError(t, a.Save(path, lora.SaveOptions{}))
	_, err = lora.Load(path, closed)
	require.ErrorIs(t, err, ggml.ErrClosed)
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.Save(path, lora.SaveOptions{}), ggml.ErrClosed)
	require.EqualError(t, a.Save(path, lora.SaveOptions{}), path+" cannot be written: the adapter is closed: use of a closed object")

	var none *model.Model
	_, err = train.New(none, train.Trainables{}, d, options(3))
	require.EqualError(t, err, "the model is nil")
	_, err = lora.New(none, lora.Options{Rank: 1})
	require.EqualError(t, err, "the model is nil")
	_, err = lora.Load(path, none)
	require.EqualError(t, err, "the model is nil")
	_, err = train.New(m, train.Trainables{ModelWeights: weights(m)}, (*data.Dataset)(nil), options(3))
	require.EqualError(t, err, "the data set has no samples")
}
