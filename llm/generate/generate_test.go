package generate_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

func TestMain(m *testing.M) { testutil.Main(m) }

// randomModel is tinyModel for a test.
func randomModel(t *testing.T, context int) *model.Model {
	t.Helper()
	m := need.Value(tinyModel(context))(t)
	t.Cleanup(func() { m.Close() })
	return m
}

func open(t *testing.T, m *model.Model) (*infer.Sequence, *sample.Sampler) {
	t.Helper()
	return newSequence(t, newSession(t, m, 1)), sampler(t, sample.Options{Temperature: 1, Seed: 3})
}

func newSession(t *testing.T, m *model.Model, sequences int) *infer.Session {
	t.Helper()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Sequences: sequences, Threads: 1}))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func newSequence(t *testing.T, s *infer.Session) *infer.Sequence {
	t.Helper()
	return need.Value(s.NewSequence())(t)
}

// rewind cuts a sequence to n tokens.
func rewind(t *testing.T, q *infer.Sequence, n int) {
	t.Helper()
	at := need.Value(q.Rewind(n))(t)
	require.Equal(t, n, at)
}

func TestText(t *testing.T) {
	m := randomModel(t, 64)
	var texts []string
	for range 2 {
		q, pick := open(t, m)
		var text strings.Builder
		stats := need.Value(generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: &text, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(20), IgnoreEOG: true}}))(t)
		require.Equal(t, 20, stats.Generated)
		require.Equal(t, len(m.Tokenizer.Encode("prompt", tokenizer.EncodeOptions{AddSpecial: true})), stats.Prompt)
		require.NotContains(t, text.String(), "prompt")
		require.NotEmpty(t, text.String())
		texts = append(texts, text.String())
	}
	require.Equal(t, texts[0], texts[1], "the same seed gives the same text")
}

// A text follows the previous text in its sequence, including that text's last token.
func TestTextGoesOn(t *testing.T) {
	m := randomModel(t, 64)
	q, pick := open(t, m)
	var first, second strings.Builder
	stats, err := generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: &first, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(5), IgnoreEOG: true}})
	require.NoError(t, err)
	require.Equal(t, stats.Prompt+5, q.Len())
	more := need.Value(generate.Text(context.Background(), m, q, generate.Request{Prompt: " and", W: &second, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(5), IgnoreEOG: true}}))(t)
	require.Equal(t, stats.Prompt+5+more.Prompt+5, q.Len())

	// The sequence can be filled to the end of the context.
	q, pick = open(t, m)
	limit := 64 - stats.Prompt
	for _, n := range []int{limit, limit + 1} {
		rewind(t, q, 0)
		_, err = generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: &first, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(n), IgnoreEOG: true}})
		require.NoError(t, err)
		require.Equal(t, 64, q.Len())
	}
}

func TestTextEnds(t *testing.T) {
	m := randomModel(t, 16)
	q, pick := open(t, m)
	var text strings.Builder
	stats, err := generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: &text, Sampler: pick, Options: generate.Options{IgnoreEOG: true}})
	require.ErrorIs(t, err, generate.ErrTruncated)
	require.Equal(t, 16, q.Len())
	require.Equal(t, 16-stats.Prompt+1, stats.Generated)

	q, pick = open(t, m)
	_, err = generate.Text(context.Background(), m, q, generate.Request{Prompt: strings.Repeat("x", 40), W: &text, Sampler: pick})
	require.ErrorIs(t, err, infer.ErrContextFull)

	// A text that reaches its limit at the end of the context is complete: no ErrTruncated.
	q, pick = open(t, m)
	stats = need.Value(generate.Text(context.Background(), m, q, generate.Request{Prompt: strings.Repeat("x", 16), W: &text, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(1), IgnoreEOG: true}}))(t)
	require.Equal(t, 16, stats.Prompt)
	require.Equal(t, 1, stats.Generated)

	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	cancel(cause)
	q, pick = open(t, m)
	_, err = generate.Text(ctx, m, q, generate.Request{Prompt: "x", W: &text, Sampler: pick})
	require.ErrorIs(t, err, cause)
	_, err = generate.Text(context.Background(), m, q, generate.Request{Prompt: "", W: &text, Sampler: pick})
	require.ErrorContains(t, err, "the prompt is empty")

	plain := need.Value(model.New(m.Config(), nil, 1))(t)
	defer plain.Close()
	_, err = generate.Text(context.Background(), plain, q, generate.Request{Prompt: "x", W: &text, Sampler: pick})
	require.ErrorContains(t, err, "no vocabulary")
}

// Missing parts of a request are errors of Text, and of each text of Texts.
func TestTextNeeds(t *testing.T) {
	m := randomModel(t, 32)
	q, pick := open(t, m)
	session := newSession(t, m, 1)
	closed := randomModel(t, 32)
	require.NoError(t, closed.Close())
	wordless := need.Value(model.New(m.Config(), nil, 1))(t)
	defer wordless.Close()
	ctx := context.Background()
	for _, c := range []struct {
		want    string
		m       *model.Model
		w       io.Writer
		pick    *sample.Sampler
		q       *infer.Sequence
		session *infer.Session
	}{
		{"the model is nil", nil, io.Discard, pick, q, session},
		{"model : use of a closed object", closed, io.Discard, pick, q, session},
		{"a model made in memory has no vocabulary, so it cannot read text", wordless, io.Discard, pick, q, session},
		{"the writer is nil; use io.Discard to drop the text", m, nil, pick, q, session},
		{"the sampler is nil; sample.New makes one", m, io.Discard, nil, q, session},
		{"the sequence is nil", m, io.Discard, pick, nil, session},
		{"the session is nil", m, io.Discard, pick, q, nil},
	} {
		o := generate.Options{Limit: testutil.Ptr(1)}
		if c.session != nil {
			_, err := generate.Text(ctx, c.m, c.q, generate.Request{Prompt: "x", W: c.w, Sampler: c.pick, Options: o})
			require.EqualError(t, err, c.want)
		}
		if c.q != nil {
			for _, r := range generate.Texts(ctx, c.m, c.session, []generate.Request{{Prompt: "x", W: c.w, Sampler: c.pick, Options: o}}) {
				require.EqualError(t, r.Err, c.want)
			}
		}
	}
}

// A nil context is an error, also if the requests have their own contexts.
func TestTextNeedsContext(t *testing.T) {
	m := randomModel(t, 32)
	q, pick := open(t, m)
	var none context.Context
	for _, own := range []context.Context{nil, context.Background()} {
		r := generate.Request{Prompt: "x", W: io.Discard, Sampler: pick, Context: own}
		_, err := generate.Text(none, m, q, r)
		require.EqualError(t, err, "the context.Context is nil")
		for _, r := range generate.Texts(none, m, newSession(t, m, 1), []generate.Request{r}) {
			require.EqualError(t, r.Err, "the context.Context is nil")
		}
	}
}

// Cancelling a request's own context ends its text.
func TestTextOfOwnContext(t *testing.T) {
	m := randomModel(t, 64)
	q, pick := open(t, m)
	cause := errors.New("enough")
	own, cancel := context.WithCancelCause(context.Background())
	stats, err := generate.Text(context.Background(), m, q, generate.Request{
		Prompt: "x", W: writer(func() error { cancel(cause); return nil }), Sampler: pick, Options: generate.Options{IgnoreEOG: true}, Context: own,
	})
	require.ErrorIs(t, err, cause)
	require.Equal(t, 1, stats.Generated)
	require.Equal(t, stats.Prompt, q.Len())
}

// A prompt that begins with the text of BOS gets one BOS, as in training.
func TestOwnBOS(t *testing.T) {
	m := randomModel(t, 64)
	m.Tokenizer = letters(t, nil)
	require.True(t, m.Tokenizer.AddsBOS())
	encoder := need.Value(data.NewEncoder(m.Tokenizer, data.EncoderOptions{}))(t)
	for _, text := range []string{"in a", "<s>in a", "<s>", "<s><s>in a", " <s>in a"} {
		q, _ := open(t, m)
		stats := need.Value(generate.Text(context.Background(), m, q, generate.Request{Prompt: text, W: io.Discard, Sampler: sampler(t, sample.Options{}), Options: generate.Options{Limit: testutil.Ptr(0)}}))(t)
		once := strings.Replace(text, "<s>", "", 1)
		if !strings.HasPrefix(text, "<s>") {
			once = text
		}
		want := m.Tokenizer.Encode(once, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.Equal(t, len(want), stats.Prompt, text)

		record := need.Value(encoder.Encode(data.Example{Format: data.Text, Text: text + "b"}))(t)
		ofText := need.Value(data.FromText(m.Tokenizer, text+"b", data.TextOptions{Length: 32}))(t)
		row := need.Value(ofText.Row(0))(t)
		trained := m.Tokenizer.Encode(once+"b", tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.Equal(t, trained, record.Tokens[:len(trained)], text)
		require.Equal(t, trained, row[0].Tokens, text)
	}
}
