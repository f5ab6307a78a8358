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
	"github.com/goggml/ggml/internal/testhook"
	"github.com/goggml/ggml/llm/infer"
)

// restorableEach lets sequences be restored only at multiples of n, as recurrent states can be
// restored only at some positions.
func restorableEach(t *testing.T, n int) {
	testhook.RestoreStep = n
	t.Cleanup(func() { testhook.RestoreStep = 0 })
}

// A rewound sequence continues as if it had never been longer, also if tokens must be recomputed.
func TestRewind(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	tokens, other := llmtest.RandomTokens(1, 20, m.Config().Vocab), llmtest.RandomTokens(2, 5, m.Config().Vocab)
	for _, step := range []int{1, 4} {
		t.Run(fmt.Sprint("restorable each ", step), func(t *testing.T) {
			restorableEach(t, step)
			for n := range len(tokens) + 1 {
				q, fresh := newSequence(t, m, infer.SessionOptions{}), newSequence(t, m, infer.SessionOptions{})
				decode(t, q, tokens...)
				rewind(t, q, n)
				want := n - n%step
				if n == len(tokens) {
					want = n // nothing to rewind
				}
				require.Equal(t, want, q.Computed())
				require.Equal(t, tokens[:n], q.Tokens())
				got := decode(t, q, other...)
				require.Equal(t, n+len(other), q.Computed())
				if n > 0 {
					decode(t, fresh, tokens[:n]...)
				}
				require.Less(t, refmath.NMSE(got, decode(t, fresh, other...)), 1e-11)
			}
		})
	}
}

// Prefill does not recompute a beginning that the sequence or another one has, up to a position that
// can be restored.
func TestPrefill(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	known := llmtest.RandomTokens(1, 11, m.Config().Vocab)
	begin := func(n int, more ...int32) []int32 { return append(known[:n:n], more...) }
	for _, c := range []struct {
		name           string
		own, other     []int32
		tokens         []int32
		cached, fourth int // tokens, if every position can be restored, and if every fourth
	}{
		{"nothing", nil, nil, known, 0, 0},
		{"its own", begin(6, 1), nil, known, 6, 4},
		{"all of its own", begin(6), nil, known, 6, 6},
		{"the last token has to be computed", known, nil, known, 10, 8},
		{"more than is asked for", known, nil, begin(7), 6, 4},
		{"another one's", nil, begin(7, 1), known, 7, 4},
		{"all of another one's", []int32{1}, begin(7), known, 7, 7},
		{"the longer one", begin(5), begin(9, 1), known, 9, 8},
		{"its own, if the other's is no longer", begin(9), begin(9), known, 9, 9},
		{"too short to be restored", nil, begin(3, 1), known, 3, 0},
	} {
		for _, step := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, restorable each %d", c.name, step), func(t *testing.T) {
				restorableEach(t, step)
				s := newSession(t, m, infer.SessionOptions{Sequences: 2})
				other, q := addSequence(t, s), addSequence(t, s)
				if c.own != nil {
					decode(t, q, c.own...)
				}
				if c.other != nil {
					decode(t, other, c.other...)
				}
				got, cached, err := q.Prefill(context.Background(), c.tokens)
				require.NoError(t, err)
				want := c.cached
				if step == 4 {
					want = c.fourth
				}
				require.Equal(t, want, cached)
				require.Equal(t, c.tokens, q.Tokens())
				require.Len(t, other.Tokens(), len(c.other))
				require.Less(t, refmath.NMSE(got, decode(t, newSequence(t, m, infer.SessionOptions{}), c.tokens...)), 1e-11)
			})
		}
	}
}

// After a failed pass, sequences have the tokens from before it, and recompute the tokens whose states
// could not be restored.
func TestRestore(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	restorableEach(t, 4)
	tokens := llmtest.RandomTokens(1, 30, m.Config().Vocab)
	cause := errors.New("enough")
	s := newSession(t, m, infer.SessionOptions{Sequences: 4, Batch: 5})
	goesOn := func(q *infer.Sequence, n, computed int) {
		t.Helper()
		require.Equal(t, tokens[:n], q.Tokens())
		require.Equal(t, computed, q.Computed())
		want := decode(t, newSequence(t, m, infer.SessionOptions{}), tokens...)
		require.Less(t, refmath.NMSE(decode(t, q, tokens[n:]...), want), 1e-11)
	}
	cancelled := func(passes int) context.Context {
		return &cancelledLater{Context: context.Background(), passes: passes, cause: cause}
	}

	q := addSequence(t, s)
	decode(t, q, tokens[:11]...)
	_, err := q.Decode(cancelled(2), tokens[11:])
	require.ErrorIs(t, err, cause)
	goesOn(q, 11, 8)

	// A failed prefill keeps the beginning that was cached.
	require.NoError(t, q.Close())
	q, other := addSequence(t, s), addSequence(t, s)
	decode(t, other, tokens[:11]...)
	_, cached, err := q.Prefill(cancelled(1), tokens)
	require.ErrorIs(t, err, cause)
	require.Equal(t, 11, cached)
	goesOn(q, 11, 8)

	// If the second of a step's two passes fails, both are undone. Sequences that no pass has
	// reached are unchanged. Two passes are needed, because Batch is less than the tokens of both.
	third, fourth := addSequence(t, s), addSequence(t, s)
	decode(t, third, tokens[:6]...)
	rewind(t, q, 12)
	decode(t, q, tokens[12])
	require.ErrorIs(t, s.Step(cancelled(1), []infer.StepInput{{Sequence: third, Before: tokens[6:10], Token: tokens[10]}, {Sequence: q, Token: tokens[13]}}), cause)
	require.ErrorIs(t, s.Step(cancelled(0), []infer.StepInput{{Sequence: third, Token: tokens[6]}}), cause)
	require.Equal(t, 11, other.Len())
	require.NoError(t, fourth.Close())
	goesOn(third, 6, 4)
	goesOn(q, 13, 12)
	goesOn(other, 11, 11)
}

// Models whose states are snapshots continue from a snapshot, after a rewind or from another sequence's beginning.
// The logits equal the logits after a prefill in a new session.
func TestRewindSnapshots(t *testing.T) {
	for _, name := range []string{"bailingmoe3", "falcon-h1", "granitehybrid", "mamba", "kimi-k3", "kimi-linear", "minimax-01", "qwen35", "qwen4exp", "rwkv6", "rwkv7"} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			tokens, others := llmtest.RandomTokens(1, 24, m.Config().Vocab), llmtest.RandomTokens(2, 9, m.Config().Vocab)
			fresh := func(tokens []int32) []float32 { return decode(t, newSequence(t, m, infer.SessionOptions{}), tokens...) }
			s := newSession(t, m, infer.SessionOptions{Sequences: 2, Batch: 5})
			q, second := addSequence(t, s), addSequence(t, s)
			decode(t, q, tokens...)
			for _, n := range []int{23, 16, 11, 5, 2} {
				rewind(t, q, n)
				require.Equal(t, n-n%5, q.Computed())
				got := decode(t, q, others...)
				want := append(tokens[:n:n], others...)
				require.Less(t, refmath.NMSE(got, fresh(want)), 1e-9)
				rewind(t, q, n-n%5)
				require.Equal(t, n-n%5, q.Computed())

				require.NoError(t, second.Close())
				second = addSequence(t, s)
				got, cached, err := second.Prefill(context.Background(), want)
				require.NoError(t, err)
				require.Equal(t, n-n%5, cached)
				require.Less(t, refmath.NMSE(got, fresh(want)), 1e-9)
			}
		})
	}
}

// A rewound sequence, and one that shares another's beginning, take the adapters that the tokens of their own text activate.
func TestRewindSwitch(t *testing.T) {
	m := llmtest.ArchModel(t, "graniteswitch", ggml.F32)
	tokens, others := []int32{0, 3, 9, 6, 11, 1, 12, 13, 6, 14}, []int32{10, 6, 20, 21}
	fresh := func(tokens []int32) []float32 { return decode(t, newSequence(t, m, infer.SessionOptions{}), tokens...) }
	s := newSession(t, m, infer.SessionOptions{Sequences: 2, Batch: 3})
	q, second := addSequence(t, s), addSequence(t, s)
	decode(t, q, tokens...)
	for _, n := range []int{9, 6, 4, 2, 1} { // before and behind tokens that activate adapters
		rewind(t, q, n)
		want := append(tokens[:n:n], others...)
		require.Less(t, refmath.NMSE(decode(t, q, others...), fresh(want)), 1e-9)

		require.NoError(t, second.Close())
		second = addSequence(t, s)
		got, cached, err := second.Prefill(context.Background(), append(tokens[:n:n], others[1:]...))
		require.NoError(t, err)
		require.Equal(t, n, cached)
		require.Less(t, refmath.NMSE(got, fresh(append(tokens[:n:n], others[1:]...))), 1e-9)
		rewind(t, q, n)
	}
	require.Greater(t, refmath.NMSE(fresh([]int32{0, 3, 9}), fresh([]int32{0, 7, 9})), 1e-3, "token 3, which the model sees as 7, must activate an adapter")
}
