package train_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lossgraph"
	"github.com/goggml/ggml/llm/train"
)

// Building with the pairs of a closed adapter is an error, and leaves nothing open.
func TestClosedAdapter(t *testing.T) {
	m := tinyModel(t)
	a := newAdapter(t, m, 1)
	tr := adapterTrainer(t, m, a, pattern(16, 16), options(20))
	e, err := infer.NewSession(m, infer.SessionOptions{})
	require.NoError(t, err)
	defer e.Close()
	engine := llmtest.NewEngine(t)
	pairs := a.WithScale(1)
	require.NoError(t, a.Close())
	objects := ggml.OpenObjects()
	for name, use := range map[string]func() error{
		"evaluation": func() error { _, err := tr.Evaluate(context.Background(), pattern(4, 16)); return err },
		"step":       func() error { _, err := tr.Step(context.Background()); return err },
		"loss graph": func() error {
			_, err := lossgraph.New(m, engine, lossgraph.Options{Length: 4, Batch: 1, Adapters: pairs})
			return err
		},
		"session": func() error { _, err := infer.NewSession(m, infer.SessionOptions{Adapters: pairs}); return err },
		"trainer": func() error {
			_, err := train.New(m, train.Trainables{Adapters: pairs}, pattern(16, 16), options(20))
			return err
		},
	} {
		require.ErrorIs(t, use(), ggml.ErrClosed, name)
		require.Equal(t, objects, ggml.OpenObjects(), name)
	}
}
