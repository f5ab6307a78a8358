package generate_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
)

// collect returns the tokens up to an error.
func collect(tokens iter.Seq2[generate.Token, error]) (out []generate.Token, err error) {
	for t, err := range tokens {
		out = append(out, t)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}

func textOf(tokens []generate.Token) string {
	var text strings.Builder
	for _, t := range tokens {
		text.WriteString(t.Text)
	}
	return text.String()
}

func idsOf(tokens []generate.Token) (ids []int32) {
	for _, t := range tokens {
		ids = append(ids, t.ID)
	}
	return ids
}

// Stream yields the text that Text writes, and the sequence then contains its tokens.
func TestStream(t *testing.T) {
	m := randomModel(t, 64)
	options := generate.Options{Limit: testutil.Ptr(20), IgnoreEOG: true}
	q, pick := open(t, m)
	var text strings.Builder
	want := need.Value(generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: &text, Sampler: pick, Options: options}))(t)

	q, pick = open(t, m)
	seq, stats := generate.Stream(context.Background(), m, q, generate.Request{Prompt: "prompt", Sampler: pick, Options: options})
	require.Zero(t, *stats)
	require.Zero(t, q.Len(), "nothing is computed before the loop")
	tokens := need.Value(collect(seq))(t)
	require.Len(t, tokens, 20)
	require.Equal(t, text.String(), textOf(tokens))
	require.Equal(t, idsOf(tokens), q.Tokens()[stats.Prompt:])
	require.Equal(t, generate.FinishLength, stats.Finish)
	require.Equal(t, []any{want.Prompt, want.Generated, want.Finish}, []any{stats.Prompt, stats.Generated, stats.Finish})
	for _, token := range tokens {
		require.Zero(t, token.LogProb, "nobody asked")
	}
}

// Log-probabilities follow from the logits before the sampler changes them.
func TestStreamLogProbs(t *testing.T) {
	m := randomModel(t, 64)
	for _, ignore := range []bool{false, true} {
		q, _ := open(t, m)
		pick := sampler(t, sample.Options{Temperature: 2, TopK: 5, RepeatPenalty: 1.5, Seed: 1})
		seq, stats := generate.Stream(context.Background(), m, q, generate.Request{Prompt: "prompt", Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(12), LogProbs: true, IgnoreEOG: ignore}})
		tokens := need.Value(collect(seq))(t)
		all := q.Tokens()
		again, _ := open(t, m)
		logits := need.Value(again.DecodeAll(context.Background(), all))(t)
		for i, token := range tokens {
			sum := 0.0
			row := logits[stats.Prompt-1+i]
			for _, l := range row {
				sum += math.Exp(float64(l))
			}
			require.InDelta(t, math.Log(math.Exp(float64(row[token.ID]))/sum), token.LogProb, 1e-4)
		}
	}
}

// If the caller leaves the loop, the sequence contains the tokens so far, and the next text continues as
// after a limit at that token.
func TestStreamLeft(t *testing.T) {
	m := randomModel(t, 64)
	follow := func(q *infer.Sequence, pick *sample.Sampler) string {
		var text strings.Builder
		_, err := generate.Text(context.Background(), m, q, generate.Request{Prompt: " and", W: &text, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(5), IgnoreEOG: true}})
		require.NoError(t, err)
		return text.String()
	}
	for _, n := range []int{1, 7} {
		q, pick := open(t, m)
		seq, stats := generate.Stream(context.Background(), m, q, generate.Request{Prompt: "prompt", Sampler: pick, Options: generate.Options{IgnoreEOG: true}})
		var ids []int32
		for token, err := range seq {
			require.NoError(t, err)
			if ids = append(ids, token.ID); len(ids) == n {
				break
			}
		}
		require.Equal(t, ids, q.Tokens()[stats.Prompt:])
		require.Empty(t, stats.Finish)
		require.Equal(t, n, stats.Generated)
		got := follow(q, pick)

		q, pick = open(t, m)
		_, err := generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: io.Discard, Sampler: pick, Options: generate.Options{Limit: &n, IgnoreEOG: true}})
		require.NoError(t, err)
		require.Equal(t, follow(q, pick), got)
	}
}

// An error ends a stream and comes without a token.
func TestStreamErrors(t *testing.T) {
	m := randomModel(t, 16)
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	cause := errors.New("enough")
	q, pick := open(t, m)
	seq, stats := generate.Stream(ctx, m, q, generate.Request{Prompt: "x", Sampler: pick, Options: generate.Options{IgnoreEOG: true}})
	var last generate.Token
	var err error
	for last, err = range seq {
		cancel(cause)
	}
	require.ErrorIs(t, err, cause)
	require.Equal(t, generate.Token{ID: -1}, last)
	require.Equal(t, 1, stats.Generated)
	require.Empty(t, stats.Finish)

	q, pick = open(t, m)
	seq, stats = generate.Stream(context.Background(), m, q, generate.Request{Prompt: "prompt", Sampler: pick, Options: generate.Options{IgnoreEOG: true}})
	tokens, err := collect(seq)
	require.ErrorIs(t, err, generate.ErrTruncated)
	require.Len(t, tokens, stats.Generated+1)
	require.Equal(t, generate.Token{ID: -1}, tokens[stats.Generated])
	require.Equal(t, generate.FinishLength, stats.Finish)

	for _, c := range []struct {
		r    generate.Request
		want string
	}{
		{generate.Request{Prompt: "", Sampler: pick}, "the prompt is empty, and the model has no token that begins a text"},
		{generate.Request{Prompt: "x"}, "the sampler is nil; sample.New makes one"},
		{generate.Request{Prompt: "x", Sampler: pick, W: io.Discard}, "the request has a writer, which only Text uses; Stream yields the tokens to its caller"},
	} {
		q, _ := open(t, m)
		seq, _ := generate.Stream(context.Background(), m, q, c.r)
		tokens, err := collect(seq)
		require.EqualError(t, err, c.want)
		require.Equal(t, []generate.Token{{ID: -1}}, tokens)
	}
	q, pick = open(t, m)
	text := func() iter.Seq2[generate.Token, error] {
		tokens, _ := generate.Stream(context.Background(), m, q, generate.Request{Prompt: "x", Sampler: pick, Options: generate.Options{IgnoreEOG: true}})
		return tokens
	}
	for _, err = range text() {
		for range text() { // in the same sequence
			break
		}
	}
	require.EqualError(t, err, "the sequence was changed while a text was generated in it; give each text its own sequence")

	other := randomModel(t, 16)
	otherQ, _ := open(t, other)
	const want = "the session belongs to another model: to a model made in memory, not a model made in memory"
	seq, _ = generate.Stream(context.Background(), m, otherQ, generate.Request{Prompt: "x", Sampler: pick})
	_, err = collect(seq)
	require.ErrorContains(t, err, want)
	_, err = generate.NewChat(m, otherQ, pick, generate.ChatOptions{Template: parseTemplate(t, chatML)})
	require.ErrorContains(t, err, want)
	_, err = generate.Embed(context.Background(), m, otherQ.Session(), []string{"x"}, infer.EmbedOptions{})
	require.ErrorContains(t, err, want)

	var missing *generate.Chat
	seq, reply := missing.Stream(context.Background(), dialogue("x"))
	_, err = collect(seq)
	require.EqualError(t, err, "the chat is nil")
	require.Zero(t, *reply)
}

// Chat.Stream yields the reply that Reply writes, also if it ends at a limit or a stop text, or the caller
// leaves the loop.
func TestChatStreamIsReply(t *testing.T) {
	m := randomModel(t, 128)
	ask := func(o generate.ChatOptions) *generate.Chat {
		o.Template = parseTemplate(t, chatML)
		c, _ := newChat(t, m, o)
		return c
	}
	whole := need.Value(ask(generate.ChatOptions{Limit: testutil.Ptr(30)}).Reply(context.Background(), io.Discard, dialogue("hello")))(t)
	stop := []rune(whole.Content)[12:14]
	for name, o := range map[string]generate.ChatOptions{
		"limit": {Limit: testutil.Ptr(9)},
		"stop":  {Stop: []string{string(stop)}, Limit: testutil.Ptr(30)},
		"held":  {Stop: []string{whole.Content + "and more"}, Limit: testutil.Ptr(30)},
		"full":  {},
	} {
		var text strings.Builder
		want, err := ask(o).Reply(context.Background(), &text, dialogue("hello"))
		require.NoError(t, err)
		require.Equal(t, want.Content, text.String())
		seq, reply := ask(o).Stream(context.Background(), dialogue("hello"))
		shown := ""
		for token, err := range seq {
			require.NoError(t, err, name)
			shown += token.Text
			require.Equal(t, shown, reply.Content, name)
		}
		require.NotEmpty(t, shown)
		require.Equal(t, want.Content, shown, name)
		require.Equal(t, []any{want.Content, want.Finish, want.Prompt, want.Generated}, []any{reply.Content, reply.Finish, reply.Prompt, reply.Generated}, name)
	}

	// If the caller leaves the loop, the reply keeps the text so far, and the dialogue can continue.
	c := ask(generate.ChatOptions{Limit: testutil.Ptr(30)})
	talk := dialogue("hello")
	seq, reply := c.Stream(context.Background(), talk)
	for range seq {
		if reply.Generated == 5 {
			break
		}
	}
	require.Equal(t, 5, reply.Generated)
	require.True(t, strings.HasPrefix(whole.Content, reply.Content))
	require.Empty(t, reply.Finish)
	talk.Messages = append(talk.Messages, chat.NewMessage("assistant", reply.Content), chat.NewMessage("user", "and?"))
	next := need.Value(c.Reply(context.Background(), io.Discard, talk))(t)
	require.Positive(t, next.Cached)
}

// The token by which the model ends a text comes last in a stream, without text.
func TestStreamEnds(t *testing.T) {
	m := randomModel(t, 64)
	m.Tokenizer = letters(t, nil)
	q, _ := open(t, m)
	seq, stats := generate.Stream(context.Background(), m, q, generate.Request{Prompt: "a", Sampler: sampler(t, sample.Options{Temperature: 5, Seed: 2})})
	tokens := need.Value(collect(seq))(t)
	require.Equal(t, generate.FinishStop, stats.Finish)
	require.Len(t, tokens, stats.Generated+1)
	last := tokens[stats.Generated]
	require.True(t, m.Tokenizer.IsEOG(last.ID))
	require.Empty(t, last.Text)
}
