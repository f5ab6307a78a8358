package model_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/llm/model"
)

func newGroup(t testing.TB, m *model.Model, sequences int, o model.SessionOptions) *model.Group {
	t.Helper()
	g, err := m.NewGroup(sequences, o)
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
func TestGroupGreedy(t *testing.T) {
	const steps = 40
	for _, c := range []struct{ weights, cache ggml.Type }{
		{ggml.F32, ggml.F32}, {ggml.F32, ggml.F16}, {ggml.F32, ggml.Q8_0}, {ggml.Q8_0, ggml.F16},
	} {
		t.Run(fmt.Sprintf("%v, cache %v", c.weights, c.cache), func(t *testing.T) {
			m := goldenModel(t, c.weights)
			o := model.SessionOptions{CacheType: c.cache, Context: 400, Batch: 64}
			var want [][]int32
			prompts := [][]int32{
				randomTokens(1, 3, m.Vocab), randomTokens(2, 270, m.Vocab), randomTokens(3, 90, m.Vocab), randomTokens(4, 1, m.Vocab), randomTokens(5, 30, m.Vocab),
			}
			for _, prompt := range prompts {
				s := newSession(t, m, o)
				tokens := []int32{argmax(decode(t, s, prompt...))}
				for range steps {
					tokens = append(tokens, argmax(decode(t, s, tokens[len(tokens)-1])))
				}
				want = append(want, tokens)
			}

			g := newGroup(t, m, 3, o)
			got := make([][]int32, len(prompts))
			texts := map[*model.Sequence]int{}
			for started := 0; started < len(prompts) || len(texts) > 0; {
				for ; g.Free() > 0 && started < len(prompts); started++ {
					s, logits, err := g.Start(context.Background(), prompts[started])
					require.NoError(t, err)
					texts[s] = started
					got[started] = append(got[started], argmax(logits))
				}
				var next []model.Next
				for s, i := range texts {
					next = append(next, model.Next{Sequence: s, Token: got[i][len(got[i])-1]})
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

// Any history of a group gives the logits of its sequences.
func TestGroupHistory(t *testing.T) {
	m := tinyModel(t, tinyConfig(false), ggml.F32)
	fresh := newSession(t, m, model.SessionOptions{Context: 300})
	check := func(r *rapid.T, s *model.Sequence, got []float32) {
		require.NoError(r, fresh.Truncate(0))
		want, err := fresh.Decode(context.Background(), s.Tokens())
		require.NoError(r, err)
		require.Less(r, refmath.NMSE(got, want), 1e-11)
	}
	g := newGroup(t, m, 4, model.SessionOptions{Context: 300, Batch: 32})
	rapid.Check(t, func(r *rapid.T) {
		var open []*model.Sequence
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
				var next []model.Next
				for _, s := range open {
					next = append(next, model.Next{Sequence: s, Token: rapid.Int32Range(0, 1).Draw(r, "token")})
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

func TestGroupErrors(t *testing.T) {
	m := tinyModel(t, tinyConfig(false), ggml.F32)
	ctx := context.Background()
	_, err := m.NewGroup(0, model.SessionOptions{})
	require.EqualError(t, err, "a group of 0 sequences is impossible")
	g := newGroup(t, m, 2, model.SessionOptions{Context: 20})
	require.Equal(t, 20, g.Context())

	_, err = g.Step(ctx, nil)
	require.EqualError(t, err, "the group has no sequences to continue")
	_, _, err = g.Start(ctx, nil)
	require.EqualError(t, err, "there are no tokens to decode")
	_, _, err = g.Start(ctx, make([]int32, 21))
	require.ErrorIs(t, err, model.ErrContextFull)
	a, _, err := g.Start(ctx, []int32{1, 2, 3})
	require.NoError(t, err)
	b, _, err := g.Start(ctx, make([]int32, 20))
	require.NoError(t, err)
	_, _, err = g.Start(ctx, []int32{1})
	require.ErrorIs(t, err, model.ErrGroupFull)
	require.EqualError(t, err, "the group is full: it has 2 sequences; close one")

	_, err = g.Step(ctx, []model.Next{{Sequence: a, Token: 1}})
	require.EqualError(t, err, "a step has 1 tokens for 2 sequences; it takes one for each")
	_, err = g.Step(ctx, []model.Next{{Sequence: a, Token: 1}, {Sequence: a, Token: 1}})
	require.EqualError(t, err, "sequence 1 of the step is closed, of another group, or there twice")
	_, err = g.Step(ctx, []model.Next{{Sequence: a, Token: 1}, {Token: 1}})
	require.EqualError(t, err, "sequence 1 of the step is closed, of another group, or there twice")
	_, err = g.Step(ctx, []model.Next{{Sequence: a, Token: 1}, {Sequence: b, Token: 1}})
	require.ErrorIs(t, err, model.ErrContextFull)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, err = g.Step(ctx, []model.Next{{Sequence: a, Token: 96}})
	require.EqualError(t, err, "sequence 0: token 0 is 96; the vocabulary has 96")
	require.Equal(t, []int32{1, 2, 3}, a.Tokens())

	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	require.NoError(t, a.Close())
	_, err = g.Step(ctx, []model.Next{{Sequence: a, Token: 1}})
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, _, err = g.Start(ctx, []int32{1})
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// A cancelled step or start leaves the group as it was.
func TestGroupCancel(t *testing.T) {
	m := goldenModel(t, ggml.F32)
	g := newGroup(t, m, 2, model.SessionOptions{})
	s, _, err := g.Start(context.Background(), goldenTokens(t))
	require.NoError(t, err)

	cause := errors.New("enough")
	cancelled, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	_, err = g.Step(cancelled, []model.Next{{Sequence: s, Token: 7}})
	require.ErrorIs(t, err, cause)
	_, _, err = g.Start(cancelled, []int32{1, 2, 3})
	require.ErrorIs(t, err, cause)
	require.Equal(t, 1, g.Free())

	got, err := g.Step(context.Background(), []model.Next{{Sequence: s, Token: 8}})
	require.NoError(t, err)
	want := decode(t, newSession(t, m, model.SessionOptions{}), append(goldenTokens(t), 8)...)
	require.Less(t, refmath.NMSE(got[0], want), 1e-11)
}
