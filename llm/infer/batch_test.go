package infer_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/llmtest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

func newBatch(t testing.TB, m *model.Model, sequences int, o infer.SessionOptions) *infer.Batch {
	t.Helper()
	g, err := infer.NewBatch(m, sequences, o)
	require.NoError(t, err)
	t.Cleanup(func() { g.Close() })
	return g
}

// argmax is the most likely token.
func argmax(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Sequences that go on together take the same tokens as each alone, whatever
// the cache holds, while others end and begin.
func TestBatchGreedy(t *testing.T) {
	const steps = 40
	for _, c := range []struct{ weights, cache ggml.Type }{
		{ggml.F32, ggml.F32}, {ggml.F32, ggml.F16}, {ggml.F32, ggml.Q8_0}, {ggml.Q8_0, ggml.F16},
	} {
		t.Run(fmt.Sprintf("%v, cache %v", c.weights, c.cache), func(t *testing.T) {
			m := llmtest.GoldenModel(t, c.weights)
			o := infer.SessionOptions{CacheType: c.cache, Context: 400, Batch: 64}
			var want [][]int32
			prompts := [][]int32{
				llmtest.RandomTokens(1, 3, m.Config().Vocab), llmtest.RandomTokens(2, 270, m.Config().Vocab), llmtest.RandomTokens(3, 90, m.Config().Vocab), llmtest.RandomTokens(4, 1, m.Config().Vocab), llmtest.RandomTokens(5, 30, m.Config().Vocab),
			}
			for _, prompt := range prompts {
				s := newSession(t, m, o)
				tokens := []int32{argmax(decode(t, s, prompt...))}
				for range steps {
					tokens = append(tokens, argmax(decode(t, s, tokens[len(tokens)-1])))
				}
				want = append(want, tokens)
			}

			g := newBatch(t, m, 3, o)
			got := make([][]int32, len(prompts))
			texts := map[*infer.Sequence]int{}
			for started := 0; started < len(prompts) || len(texts) > 0; {
				for ; g.Free() > 0 && started < len(prompts); started++ {
					s, logits, err := g.Start(context.Background(), prompts[started])
					require.NoError(t, err)
					texts[s] = started
					got[started] = append(got[started], argmax(logits))
				}
				var next []infer.StepInput
				for s, i := range texts {
					next = append(next, infer.StepInput{Sequence: s, Token: got[i][len(got[i])-1]})
				}
				logits, err := g.Step(context.Background(), next)
				require.NoError(t, err)
				for j, n := range next {
					i := texts[n.Sequence]
					got[i] = append(got[i], argmax(logits[j]))
					// They end at different times.
					if len(got[i]) == steps+1-7*i {
						require.NoError(t, n.Sequence.Close())
						delete(texts, n.Sequence)
					}
				}
			}
			for i := range want {
				require.Equal(t, want[i][:len(got[i])], got[i], "prompt %d", i)
			}
		})
	}
}

// Any history of a batch gives the logits of its sequences.
func TestBatchHistory(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	fresh := newSession(t, m, infer.SessionOptions{Context: 300})
	check := func(r *rapid.T, s *infer.Sequence, got []float32) {
		require.NoError(r, fresh.Truncate(0))
		want, err := fresh.Decode(context.Background(), s.Tokens())
		require.NoError(r, err)
		require.Less(r, refmath.NMSE(got, want), 1e-11)
	}
	g := newBatch(t, m, 4, infer.SessionOptions{Context: 300, Batch: 32})
	rapid.Check(t, func(r *rapid.T) {
		var open []*infer.Sequence
		defer func() {
			for _, s := range open {
				require.NoError(r, s.Close())
			}
		}()
		for range rapid.IntRange(1, 10).Draw(r, "actions") {
			switch action := rapid.IntRange(0, 3).Draw(r, "action"); {
			case action == 0 && g.Free() > 0:
				// Few kinds of tokens make beginnings that are alike.
				tokens := rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 40).Draw(r, "tokens")
				s, logits, err := g.Start(context.Background(), tokens)
				require.NoError(r, err)
				require.Equal(r, tokens, s.Tokens())
				open = append(open, s)
				check(r, s, logits)
			case action == 1 && len(open) > 0:
				i := rapid.IntRange(0, len(open)-1).Draw(r, "close")
				require.NoError(r, open[i].Close())
				open = slices.Delete(open, i, i+1)
			case len(open) > 0:
				var next []infer.StepInput
				for _, s := range open {
					next = append(next, infer.StepInput{Sequence: s, Token: rapid.Int32Range(0, 1).Draw(r, "token")})
				}
				logits, err := g.Step(context.Background(), next)
				require.NoError(r, err)
				for i, s := range open {
					check(r, s, logits[i])
				}
			}
		}
	})
}

func TestBatchErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	ctx := context.Background()
	_, err := infer.NewBatch(m, 0, infer.SessionOptions{})
	require.EqualError(t, err, "a batch of 0 sequences is impossible; it can have 1 to 65536")
	_, err = infer.NewBatch(m, math.MaxInt, infer.SessionOptions{})
	require.EqualError(t, err, "a batch of 9223372036854775807 sequences is impossible; it can have 1 to 65536")
	_, err = infer.NewBatch(m, 65536, infer.SessionOptions{Context: math.MaxInt32})
	require.ErrorContains(t, err, "a KV cache of 140737488289792 positions, which a smaller context would not need: ")
	g := newBatch(t, m, 2, infer.SessionOptions{Context: 20})
	require.Equal(t, 20, g.Context())

	_, err = g.Step(ctx, nil)
	require.EqualError(t, err, "the batch has no sequences to continue")
	_, _, err = g.Start(ctx, nil)
	require.EqualError(t, err, "there are no tokens to decode")
	_, _, err = g.Start(ctx, make([]int32, 21))
	require.ErrorIs(t, err, infer.ErrContextFull)
	a, _, err := g.Start(ctx, []int32{1, 2, 3})
	require.NoError(t, err)
	b, _, err := g.Start(ctx, make([]int32, 20))
	require.NoError(t, err)
	_, _, err = g.Start(ctx, []int32{1})
	require.ErrorIs(t, err, infer.ErrBatchFull)
	require.EqualError(t, err, "the batch is full: it has 2 sequences; close one")

	_, err = g.Step(ctx, []infer.StepInput{{Sequence: a, Token: 1}})
	require.EqualError(t, err, "a step has 1 tokens for 2 sequences; it takes one for each")
	_, err = g.Step(ctx, []infer.StepInput{{Sequence: a, Token: 1}, {Sequence: a, Token: 1}})
	require.EqualError(t, err, "sequence 1 of the step is closed, of another batch, or there twice")
	_, err = g.Step(ctx, []infer.StepInput{{Sequence: a, Token: 1}, {Token: 1}})
	require.EqualError(t, err, "sequence 1 of the step is closed, of another batch, or there twice")
	_, err = g.Step(ctx, []infer.StepInput{{Sequence: a, Token: 1}, {Sequence: b, Token: 1}})
	require.ErrorIs(t, err, infer.ErrContextFull)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, err = g.Step(ctx, []infer.StepInput{{Sequence: a, Token: 96}})
	require.EqualError(t, err, "sequence 0: token 0 is 96; the vocabulary has 96")
	require.Equal(t, []int32{1, 2, 3}, a.Tokens())

	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.NoError(t, a.Close())
	_, err = g.Step(ctx, []infer.StepInput{{Sequence: a, Token: 1}})
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, _, err = g.Start(ctx, []int32{1})
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// A cancelled step or start leaves the batch as it was.
func TestBatchCancel(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	g := newBatch(t, m, 2, infer.SessionOptions{})
	s, _, err := g.Start(context.Background(), llmtest.GoldenTokens(t))
	require.NoError(t, err)

	cause := errors.New("enough")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, err = g.Step(cancelled, []infer.StepInput{{Sequence: s, Token: 7}})
	require.ErrorIs(t, err, cause)
	_, _, err = g.Start(cancelled, []int32{1, 2, 3})
	require.ErrorIs(t, err, cause)
	require.Equal(t, 1, g.Free())

	got, err := g.Step(context.Background(), []infer.StepInput{{Sequence: s, Token: 8}})
	require.NoError(t, err)
	want := decode(t, newSession(t, m, infer.SessionOptions{}), append(llmtest.GoldenTokens(t), 8)...)
	require.Less(t, refmath.NMSE(got[0], want), 1e-11)
}
