package infer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/llm/infer"
)

// argmax returns the most likely token.
func argmax(logits []float32) int32 {
	best := 0
	for i, x := range logits {
		if x > logits[best] {
			best = i
		}
	}
	return int32(best)
}

// Sequences that are stepped together greedily take the same tokens as each alone, for each type
// of cache, while other sequences end and begin.
func TestStepGreedy(t *testing.T) {
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
				s := newSequence(t, m, o)
				tokens := []int32{argmax(decode(t, s, prompt...))}
				for range steps {
					tokens = append(tokens, argmax(decode(t, s, tokens[len(tokens)-1])))
				}
				want = append(want, tokens)
			}

			o.Sequences = 3
			s := newSession(t, m, o)
			got := make([][]int32, len(prompts))
			texts := map[*infer.Sequence]int{}
			for started := 0; started < len(prompts) || len(texts) > 0; {
				for ; s.Free() > 0 && started < len(prompts); started++ {
					q, logits := start(t, s, prompts[started]...)
					texts[q] = started
					got[started] = append(got[started], argmax(logits))
				}
				var next []infer.StepInput
				for q, i := range texts {
					next = append(next, infer.StepInput{Sequence: q, Token: got[i][len(got[i])-1]})
				}
				require.NoError(t, s.Step(context.Background(), next))
				for _, n := range next {
					i := texts[n.Sequence]
					got[i] = append(got[i], argmax(n.Logits))
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

// The logits of sequences do not depend on the history of their session: random sequences begin (with
// shared beginnings or not), are stepped together or in part, are rewound, and end.
func TestStepHistory(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	fresh := newSequence(t, m, infer.SessionOptions{Context: 300})
	s := newSession(t, m, infer.SessionOptions{Sequences: 5, Context: 300, Batch: 32})
	rapid.Check(t, func(r *rapid.T) {
		known := map[*infer.Sequence][]int32{}
		var open []*infer.Sequence
		check := func(q *infer.Sequence, got []float32) {
			require.Equal(r, known[q], q.Tokens())
			rewind(r, fresh, 0)
			want := need.Value(fresh.Decode(context.Background(), known[q]))(r)
			require.Less(r, refmath.NMSE(got, want), 1e-11)
		}
		defer func() {
			for _, q := range open {
				require.NoError(r, q.Close())
			}
			require.Equal(r, 5, s.Free())
		}()
		for range rapid.IntRange(1, 12).Draw(r, "actions") {
			require.Equal(r, 5-len(open), s.Free())
			action := rapid.IntRange(0, 4).Draw(r, "action")
			if action == 0 && s.Free() > 0 {
				q := need.Value(s.NewSequence())(r)
				open = append(open, q)
			}
			if len(open) == 0 {
				continue
			}
			i := rapid.IntRange(0, len(open)-1).Draw(r, "sequence")
			q := open[i]
			switch action {
			case 0, 1:
				// Two kinds of tokens make shared beginnings likely.
				known[q] = rapid.SliceOfN(rapid.Int32Range(0, 1), 1, 40).Draw(r, "tokens")
				logits, cached, err := q.Prefill(context.Background(), known[q])
				require.NoError(r, err)
				require.Less(r, cached, len(known[q]))
				check(q, logits)
			case 2:
				require.NoError(r, q.Close())
				open = slices.Delete(open, i, i+1)
			case 3:
				n := rapid.IntRange(0, q.Len()).Draw(r, "position")
				rewind(r, q, n)
				known[q] = known[q][:n:n]
			case 4:
				var next []infer.StepInput
				for _, q := range rapid.Permutation(open).Draw(r, "order")[:rapid.IntRange(1, len(open)).Draw(r, "some")] {
					next = append(next, infer.StepInput{Sequence: q, Token: rapid.Int32Range(0, 1).Draw(r, "token")})
				}
				require.NoError(r, s.Step(context.Background(), next))
				for _, n := range next {
					known[n.Sequence] = append(known[n.Sequence], n.Token)
					check(n.Sequence, n.Logits)
				}
			}
		}
	})
}

// Step writes each sequence's logits into the memory of its input, whichever sequences take part.
func TestStepOfSome(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	s := newSession(t, m, infer.SessionOptions{Sequences: 6, Context: 64})
	var all []*infer.Sequence
	var want [][]float32
	for i := range 6 {
		q, _ := start(t, s, llmtest.RandomTokens(uint64(i), 5+3*i, m.Config().Vocab)...)
		want = append(want, decode(t, q, 7))
		rewind(t, q, q.Len()-1)
		all = append(all, q)
	}
	require.Zero(t, s.Free())
	step := func(indices ...int) {
		var next []infer.StepInput
		for _, i := range indices {
			next = append(next, infer.StepInput{Sequence: all[i], Token: 7, Logits: make([]float32, m.Config().Vocab)})
		}
		memory := next[0].Logits
		require.NoError(t, s.Step(context.Background(), next))
		require.Same(t, &memory[0], &next[0].Logits[0])
		for j, i := range indices {
			require.Less(t, refmath.NMSE(next[j].Logits, want[i]), 1e-11, "%d of %v", i, indices)
			rewind(t, all[i], all[i].Len()-1)
		}
	}
	step(4)
	step(5, 0, 2)
	step(3, 1, 5)
	// Slots of closed sequences are reused by the last sequences or by new ones.
	for _, i := range []int{0, 3} {
		require.NoError(t, all[i].Close())
	}
	step(5)
	require.Equal(t, 2, s.Free())
	all[3], _ = start(t, s, llmtest.RandomTokens(3, 5+3*3, m.Config().Vocab)...)
	step(3, 1)
	step(2, 5)
}

func TestStepErrors(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	ctx := context.Background()
	s := newSession(t, m, infer.SessionOptions{Sequences: 2, Context: 20})
	require.Equal(t, 20, s.Context())
	a, _ := start(t, s, 1, 2, 3)
	b, _ := start(t, s, make([]int32, 20)...)
	_, err := s.NewSequence()
	require.ErrorIs(t, err, infer.ErrSessionFull)
	require.EqualError(t, err, "the session is full: it has 2 sequences; close one, or make a session for more")
	other := newSequence(t, m, infer.SessionOptions{})

	for _, c := range []struct {
		next []infer.StepInput
		says string
	}{
		{nil, "the step has no sequences to continue"},
		{[]infer.StepInput{{Sequence: a}, {Sequence: b}}, "sequence 1 of the step: the context is full: no room for 1 token at position 20 of a context of 20; use a larger context or a shorter text"},
		{[]infer.StepInput{{Sequence: a, Token: 96}}, "sequence 0 of the step: token 0 is 96; the vocabulary has 96"},
		{[]infer.StepInput{{Sequence: a}, {Sequence: a}}, "sequence 1 of the step is listed twice"},
		{[]infer.StepInput{{Sequence: a}, {}}, "sequence 1 of the step: the sequence is nil"},
		{[]infer.StepInput{{Sequence: other}}, "sequence 0 of the step: it belongs to another session"},
		{[]infer.StepInput{{Sequence: a, Logits: make([]float32, 95)}}, "sequence 0 of the step: the slice must hold the logits of 96 tokens; it has room for 95"},
	} {
		require.EqualError(t, s.Step(ctx, c.next), c.says)
	}
	require.Equal(t, []int32{1, 2, 3}, a.Tokens())
	require.Equal(t, 20, b.Len())
	require.NoError(t, b.Close())
	require.EqualError(t, s.Step(ctx, []infer.StepInput{{Sequence: a}, {Sequence: b}}), "sequence 1 of the step: sequence: use of a closed object")
	require.NoError(t, s.Step(ctx, []infer.StepInput{{Sequence: a, Token: 4}}))
	require.Equal(t, []int32{1, 2, 3, 4}, a.Tokens())
}

// A cancelled step leaves the sequences unchanged, even if some passes were computed.
func TestStepCancel(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	const length = 160
	s := newSession(t, m, infer.SessionOptions{Sequences: 3, Context: length})
	a, _ := start(t, s, llmtest.GoldenTokens(t)...)
	between, _ := start(t, s, make([]int32, length)...) // it has no room for padding
	b, _ := start(t, s, 4, 5, 6)

	cause := errors.New("enough")
	for passes := range 2 {
		ctx := &cancelledLater{Context: context.Background(), passes: passes, cause: cause}
		require.ErrorIs(t, s.Step(ctx, []infer.StepInput{{Sequence: b, Token: 7}, {Sequence: a, Token: 7}}), cause)
		require.Equal(t, llmtest.GoldenTokens(t), a.Tokens())
		require.Equal(t, []int32{4, 5, 6}, b.Tokens())
		require.Equal(t, length, between.Len())
	}

	next := []infer.StepInput{{Sequence: a, Token: 8}, {Sequence: b, Token: 8}}
	require.NoError(t, s.Step(context.Background(), next))
	want := decode(t, newSequence(t, m, infer.SessionOptions{}), append(llmtest.GoldenTokens(t), 8)...)
	require.Less(t, refmath.NMSE(next[0].Logits, want), 1e-11)
	want = decode(t, newSequence(t, m, infer.SessionOptions{}), 4, 5, 6, 8)
	require.Less(t, refmath.NMSE(next[1].Logits, want), 1e-11)
}

// Prompts of different lengths are computed in one pass, also around the slot of another sequence.
func TestStepPrompts(t *testing.T) {
	m := llmtest.GoldenModel(t, ggml.F32)
	s := newSession(t, m, infer.SessionOptions{Sequences: 4, Context: 64, Batch: 40})
	var next []infer.StepInput
	between := addSequence(t, s)
	for i, n := range []int{10, 7, 9} {
		tokens := llmtest.RandomTokens(uint64(i), n, m.Config().Vocab)
		next = append(next, infer.StepInput{Sequence: addSequence(t, s), Before: tokens[:n-1], Token: tokens[n-1]})
		if i == 0 {
			next[0].Sequence, between = between, next[0].Sequence
		}
	}
	decode(t, between, 1, 2, 3)
	once := &cancelledLater{Context: context.Background(), passes: 1, cause: errors.New("a second pass")}
	require.NoError(t, s.Step(once, next))
	for _, n := range next {
		want := decode(t, newSequence(t, m, infer.SessionOptions{}), append(slices.Clone(n.Before), n.Token)...)
		require.Less(t, refmath.NMSE(n.Logits, want), 1e-11)
	}
	require.Less(t, refmath.NMSE(decode(t, between, 4), decode(t, newSequence(t, m, infer.SessionOptions{}), 1, 2, 3, 4)), 1e-11)
	long := infer.StepInput{Sequence: between, Before: make([]int32, 40)}
	require.EqualError(t, s.Step(context.Background(), []infer.StepInput{long}), "sequence 0 of the step: a step adds at most 40 tokens to it; there are 41")
}

// A step into the caller's logits allocates no more than DecodeInto.
func TestStepGarbage(t *testing.T) {
	m := llmtest.TinyModel(t, llmtest.TinyConfig(false), ggml.F32)
	q := newSequence(t, m, infer.SessionOptions{Context: 300})
	logits := make([]float32, m.Config().Vocab)
	next := []infer.StepInput{{Sequence: q, Token: 1, Logits: logits}}
	measure := func(f func() error) float64 {
		rewind(t, q, 0)
		return testing.AllocsPerRun(100, func() { require.NoError(t, f()) })
	}
	alone := measure(func() error { return q.DecodeInto(context.Background(), logits, []int32{1}) })
	step := measure(func() error { return q.Session().Step(context.Background(), next) })
	require.LessOrEqual(t, step, alone)
}
