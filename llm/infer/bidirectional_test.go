package infer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/infer"
)

// A model that is not causal computes a sequence as a whole, whatever Batch and the other sequences of
// the session are. Continuing the sequence is an error.
func TestBidirectionalSequences(t *testing.T) {
	m := llmtest.ArchModel(t, "llada", ggml.F32)
	ctx, vocab := context.Background(), m.Config().Vocab
	tokens := llmtest.RandomTokens(5, 30, vocab)
	want := llmtest.ExactLogits(t, m, nil, tokens, 40)
	require.Greater(t, refmath.NMSE(llmtest.ExactLogits(t, m, nil, tokens[:29], 40)[0], want[0]), 1e-3, "the first token sees the last")
	s := newSession(t, m, infer.SessionOptions{Sequences: 2, Context: 40, Batch: 8})
	first, second := addSequence(t, s), addSequence(t, s)
	for _, q := range []*infer.Sequence{first, second} {
		rows := need.Value(q.DecodeAll(ctx, tokens))(t)
		requireLogits(t, rows, want, 1e-11)
	}

	const refusal = "the architecture llada has attention that is not causal, so each token sees later tokens: a sequence of 30 tokens cannot be continued; rewind it to 0, and decode its whole text at once"
	_, err := first.Decode(ctx, tokens[:1])
	require.EqualError(t, err, refusal)
	require.ErrorIs(t, err, arch.ErrNotCausal)
	err = s.Step(ctx, []infer.StepInput{{Sequence: second, Token: 1}})
	require.EqualError(t, err, "sequence 0 of the step: "+refusal)
	require.Equal(t, 30, first.Len())

	rewind(t, first, 20)
	require.Zero(t, first.Computed())
	for _, q := range []*infer.Sequence{first, second} {
		for range 2 {
			logits, cached, err := q.Prefill(ctx, tokens[:20])
			require.NoError(t, err)
			require.Zero(t, cached)
			requireLogits(t, [][]float32{logits}, llmtest.ExactLogits(t, m, nil, tokens[:20], 40)[19:], 1e-11)
		}
	}
	next := []infer.StepInput{{Sequence: second, Token: 3}, {Sequence: first, Token: 4}} // both are rewound to 0
	for _, n := range next {
		_, err := n.Sequence.Rewind(0)
		require.NoError(t, err)
	}
	require.NoError(t, s.Step(ctx, next))
	for _, n := range next {
		requireLogits(t, [][]float32{n.Logits}, llmtest.ExactLogits(t, m, nil, []int32{n.Token}, 40), 1e-11)
	}
}
