package train_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/train"
)

// A panic of a callback occurs in the caller's goroutine. The run continues with the next call, and
// ends like an uninterrupted one.
func TestRunCallbackPanics(t *testing.T) {
	d, valid := noise(1, 4, 8), noise(2, 2, 8)
	run := func(tr *train.Trainer, path, panics string) error {
		hook := func(name string) {
			if name == panics {
				panic("enough")
			}
		}
		return tr.Run(context.Background(), train.RunOptions{
			SaveEvery: 2, EvalData: valid, EvalEvery: 2,
			OnSave: func() error { hook("OnSave"); return tr.SaveCheckpoint(path) },
			OnStep: func(train.StepMetrics) { hook("OnStep") },
			OnEval: func(train.Evaluation) { hook("OnEval") },
			OnBest: func(train.Evaluation) error { hook("OnBest"); return nil },
		})
	}
	whole := newTrainer(t, tinyModel(t), d, options(4))
	path := filepath.Join(t.TempDir(), "run.gguf")
	require.NoError(t, run(whole, path, ""))
	want := need.Value(os.ReadFile(path))(t)
	for _, name := range []string{"OnSave", "OnStep", "OnEval", "OnBest"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "run.gguf")
			tr := newTrainer(t, tinyModel(t), d, options(4))
			require.PanicsWithValue(t, "enough", func() { _ = run(tr, path, name) })
			require.NoError(t, run(tr, path, ""))
			got := need.Value(os.ReadFile(path))(t)
			require.Equal(t, len(want), len(got))
			require.Equal(t, whole.Steps(), tr.Steps())
			require.Equal(t, whole.Evaluations[len(whole.Evaluations)-1].Loss, tr.Evaluations[len(tr.Evaluations)-1].Loss)
		})
	}
}
