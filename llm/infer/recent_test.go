package infer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
)

// If layers keep only the last tokens, a sequence can be rewound to some earlier positions. It then continues
// as if it had never been longer, and so does another sequence with the same beginning.
func TestRecentTokens(t *testing.T) {
	m := llmtest.ArchModel(t, "lfm2", ggml.F32)
	tokens, other := llmtest.RandomTokens(1, 110, m.Config().Vocab), llmtest.RandomTokens(2, 40, m.Config().Vocab)
	o := infer.SessionOptions{Context: 160, Sequences: 2, Batch: 7}
	alone := func(tokens []int32) []float32 { return decode(t, newSequence(t, m, o), tokens...) }
	for n, want := range map[int]int{110: 110, 109: 109, 60: 60, 49: 49, 48: 48, 47: 0, 1: 0, 0: 0} {
		t.Run(fmt.Sprint("rewound to ", n), func(t *testing.T) {
			s := newSession(t, m, o)
			q, second := addSequence(t, s), addSequence(t, s)
			decode(t, q, tokens...)
			whole := append(tokens[:n:n], other...)
			logits, cached, err := second.Prefill(context.Background(), whole)
			require.NoError(t, err)
			require.Equal(t, want, cached)
			require.Less(t, refmath.NMSE(logits, alone(whole)), 1e-11)
			rewind(t, q, n)
			require.Equal(t, want, q.Computed())
			decode(t, q, whole[n:n+3]...)
			rewind(t, q, n+2) // within the new tokens: always restorable
			require.Equal(t, n+2, q.Computed())
			require.Less(t, refmath.NMSE(decode(t, q, whole[n+2:]...), alone(whole)), 1e-11)
		})
	}
	t.Run("failed pass", func(t *testing.T) {
		cause := errors.New("enough")
		q := newSequence(t, m, o)
		decode(t, q, tokens[:9]...)
		_, err := q.Decode(&cancelledLater{Context: context.Background(), passes: 1, cause: cause}, tokens[9:])
		require.ErrorIs(t, err, cause)
		require.Equal(t, 9, q.Computed())
		require.Less(t, refmath.NMSE(decode(t, q, tokens[9:]...), alone(tokens)), 1e-11)
	})
}
