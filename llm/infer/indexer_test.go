package infer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
)

// Sequences whose queries choose keys continue after a rewind, and from another sequence's beginning, as fresh ones do, and in
// passes of any length.
func TestChosenKeys(t *testing.T) {
	for _, name := range []string{"deepseek4", "dots3note", "glm-dsa", "glm5-next", "hy_v4", "minimax-m3-blocks", "qwen4exp"} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			require.Positive(t, m.Config().IndexKeys)
			tokens, others := llmtest.RandomTokens(1, 30, m.Config().Vocab), llmtest.RandomTokens(2, 9, m.Config().Vocab)
			require.Greater(t, len(tokens), 2*m.Config().IndexKeys)
			fresh := func(tokens []int32) []float32 { return decode(t, newSequence(t, m, infer.SessionOptions{}), tokens...) }
			s := newSession(t, m, infer.SessionOptions{Sequences: 2, Batch: 7})
			q, second := addSequence(t, s), addSequence(t, s)
			require.Less(t, refmath.NMSE(decode(t, q, tokens...), fresh(tokens)), 1e-9)
			for _, n := range []int{29, 16, 5} {
				rewind(t, q, n)
				want := append(tokens[:n:n], others...)
				require.Less(t, refmath.NMSE(decode(t, q, others...), fresh(want)), 1e-9)
				require.NoError(t, second.Close())
				second = addSequence(t, s)
				got, cached, err := second.Prefill(context.Background(), want)
				require.NoError(t, err)
				require.Positive(t, cached)
				require.Less(t, refmath.NMSE(got, fresh(want)), 1e-9)
				rewind(t, q, n)
				decode(t, q, tokens[n:]...)
			}
		})
	}
}
