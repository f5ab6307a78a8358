package infer_test

import (
	"context"
	"testing"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/stretchr/testify/require"
)

func newSession(t testing.TB, m *model.Model, o infer.SessionOptions) *infer.Session {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 2
	}
	s, err := infer.NewSession(m, o)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// flat decodes tokens in one batch and joins the logits.
func flat(t testing.TB, s *infer.Session, tokens []int32) []float32 {
	t.Helper()
	rows, err := s.DecodeAll(context.Background(), tokens)
	require.NoError(t, err)
	require.Len(t, rows, len(tokens))
	var all []float32
	for _, row := range rows {
		all = append(all, row...)
	}
	return all
}

// decode gives the logits after the last token.
func decode(t testing.TB, s *infer.Session, tokens ...int32) []float32 {
	t.Helper()
	logits, err := s.Decode(context.Background(), tokens)
	require.NoError(t, err)
	return logits
}
