package infer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// Sequences with adapters of their own get the logits of a session with these adapters, alone and in steps together; they
// share no states with sequences of other adapters, and lose theirs when they get others.
func TestSequencesHaveAdapters(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	sets := []model.Adapters{nil, llmtest.GoldenAdapters(t, 1), llmtest.GoldenAdapters(t, -0.5)}
	prompt := llmtest.RandomTokens(3, 20, m.Config().Vocab)
	o := infer.SessionOptions{Context: 64, Batch: 16}
	o.Sequences = 7
	s := newSession(t, m, o)
	var prepared []*infer.Adapters
	for _, set := range sets[1:] {
		a, err := s.NewAdapters(set)
		require.NoError(t, err)
		prepared = append(prepared, a)
	}
	prepared = append([]*infer.Adapters{nil}, prepared...)
	var next []infer.StepInput
	var want [][]float32
	for i := range 6 { // of each set two, not adjacent
		alone := newSequence(t, m, infer.SessionOptions{Context: 64, Batch: 16, Adapters: sets[i%3]})
		expected := decode(t, alone, prompt...)
		q, err := s.NewSequence()
		require.NoError(t, err)
		require.NoError(t, q.SetAdapters(prepared[i%3]))
		logits, cached, err := q.Prefill(context.Background(), prompt)
		require.NoError(t, err)
		require.Equal(t, i >= 3, cached > 0, "the states of equal adapters are shared, and no others")
		require.Less(t, refmath.NMSE(logits, expected), 1e-10)
		next = append(next, infer.StepInput{Sequence: q, Token: prompt[i]})
		want = append(want, decode(t, alone, prompt[i]))
	}
	require.NoError(t, s.Step(context.Background(), next))
	for i, n := range next {
		require.Less(t, refmath.NMSE(n.Logits, want[i]), 1e-10, "sequence %d", i)
		require.NotEqual(t, want[(i+1)%3], n.Logits)
	}

	require.ErrorContains(t, prepared[1].Close(), "an open sequence has the adapters")
	for _, i := range []int{1, 4} {
		require.NoError(t, next[i].Sequence.SetAdapters(prepared[2]))
		require.Zero(t, next[i].Sequence.Len())
	}
	logits, _, err := next[1].Sequence.Prefill(context.Background(), append(prompt[:len(prompt):len(prompt)], prompt[2]))
	require.NoError(t, err)
	require.Less(t, refmath.NMSE(logits, want[2]), 1e-10)
	require.NoError(t, prepared[1].Close())
	require.NoError(t, prepared[1].Close())
	require.ErrorIs(t, next[0].Sequence.SetAdapters(prepared[1]), ggml.ErrClosed)
	require.ErrorIs(t, next[0].Sequence.SetAdapters(new(infer.Adapters)), ggml.ErrZeroValue)
	require.ErrorContains(t, newSequence(t, m, o).SetAdapters(prepared[2]), "another session")
}
