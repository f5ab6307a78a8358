package infer_test

import (
	"context"
	"testing"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/stretchr/testify/require"
)

// newSequence makes a session and a sequence in it.
func newSequence(t testing.TB, m *model.Model, o infer.SessionOptions) *infer.Sequence {
	t.Helper()
	return addSequence(t, newSession(t, m, o))
}

// start adds a sequence of tokens to a session and returns the next logits.
func start(t require.TestingT, s *infer.Session, tokens ...int32) (*infer.Sequence, []float32) {
	q := need.Value(s.NewSequence())(t)
	logits, _, err := q.Prefill(context.Background(), tokens)
	require.NoError(t, err)
	return q, logits
}

func addSequence(t testing.TB, s *infer.Session) *infer.Sequence {
	t.Helper()
	return need.Value(s.NewSequence())(t)
}

func newSession(t testing.TB, m *model.Model, o infer.SessionOptions) *infer.Session {
	t.Helper()
	if o.Threads == 0 {
		o.Threads = 2
	}
	s := need.Value(infer.NewSession(m, o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// flat decodes tokens in one batch and joins the logits.
func flat(t testing.TB, q *infer.Sequence, tokens []int32) []float32 {
	t.Helper()
	rows := need.Value(q.DecodeAll(context.Background(), tokens))(t)
	require.Len(t, rows, len(tokens))
	var all []float32
	for _, row := range rows {
		all = append(all, row...)
	}
	return all
}

// decode returns the logits after the last token.
func decode(t testing.TB, q *infer.Sequence, tokens ...int32) []float32 {
	t.Helper()
	return need.Value(q.Decode(context.Background(), tokens))(t)
}

// rewind cuts a sequence to n tokens.
func rewind(t require.TestingT, q *infer.Sequence, n int) {
	at := need.Value(q.Rewind(n))(t)
	require.Equal(t, n, at)
	require.Equal(t, n, q.Len())
}

// A cancelledLater is a context that is cancelled after a number of passes.
type cancelledLater struct {
	context.Context
	passes int
	cause  error
}

func (c *cancelledLater) Err() error {
	if c.passes == 0 {
		return c.cause
	}
	c.passes--
	return nil
}
