package generate_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/testutil"
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
	m, err := tinyModel(context)
	require.NoError(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func open(t *testing.T, m *model.Model) (*infer.Session, *sample.Sampler) {
	t.Helper()
	s, err := infer.NewSession(m, infer.SessionOptions{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	pick, err := sample.New(sample.Options{Temperature: 1, Seed: 3})
	require.NoError(t, err)
	return s, pick
}

func TestText(t *testing.T) {
	m := randomModel(t, 64)
	var texts []string
	for range 2 {
		s, pick := open(t, m)
		var text strings.Builder
		stats, err := generate.Text(context.Background(), &text, m, s, pick, "prompt", generate.Options{Limit: testutil.Ptr(20), IgnoreEOG: true})
		require.NoError(t, err)
		require.Equal(t, 20, stats.Generated)
		require.Equal(t, len(m.Tokenizer.Encode("prompt", tokenizer.EncodeOptions{AddSpecial: true})), stats.Prompt)
		require.NotContains(t, text.String(), "prompt")
		require.NotEmpty(t, text.String())
		texts = append(texts, text.String())
	}
	require.Equal(t, texts[0], texts[1], "the same seed gives the same text")
}

// A text goes on where the one before has ended, with its last token.
func TestTextGoesOn(t *testing.T) {
	m := randomModel(t, 64)
	s, pick := open(t, m)
	var first, second strings.Builder
	stats, err := generate.Text(context.Background(), &first, m, s, pick, "prompt", generate.Options{Limit: testutil.Ptr(5), IgnoreEOG: true})
	require.NoError(t, err)
	require.Equal(t, stats.Prompt+5, s.Pos())
	more, err := generate.Text(context.Background(), &second, m, s, pick, " and", generate.Options{Limit: testutil.Ptr(5), IgnoreEOG: true})
	require.NoError(t, err)
	require.Equal(t, stats.Prompt+5+more.Prompt+5, s.Pos())

	// Up to the last place.
	s, pick = open(t, m)
	limit := 64 - stats.Prompt
	for _, n := range []int{limit, limit + 1} {
		require.NoError(t, s.Truncate(0))
		_, err = generate.Text(context.Background(), &first, m, s, pick, "prompt", generate.Options{Limit: testutil.Ptr(n), IgnoreEOG: true})
		require.NoError(t, err)
		require.Equal(t, 64, s.Pos())
	}
}

func TestTextEnds(t *testing.T) {
	m := randomModel(t, 16)
	s, pick := open(t, m)
	var text strings.Builder
	stats, err := generate.Text(context.Background(), &text, m, s, pick, "prompt", generate.Options{IgnoreEOG: true})
	require.ErrorIs(t, err, generate.ErrTruncated)
	require.Equal(t, 16, s.Pos())
	require.Equal(t, 16-stats.Prompt+1, stats.Generated)

	s, pick = open(t, m)
	_, err = generate.Text(context.Background(), &text, m, s, pick, strings.Repeat("x", 40), generate.Options{})
	require.ErrorIs(t, err, infer.ErrContextFull)

	ctx, cancel := context.WithCancelCause(context.Background())
	cause := errors.New("enough")
	cancel(cause)
	s, pick = open(t, m)
	_, err = generate.Text(ctx, &text, m, s, pick, "x", generate.Options{})
	require.ErrorIs(t, err, cause)
	_, err = generate.Text(context.Background(), &text, m, s, pick, "", generate.Options{})
	require.ErrorContains(t, err, "the prompt is empty")

	plain, err := model.New(m.Config(), nil, 1)
	require.NoError(t, err)
	defer plain.Close()
	_, err = generate.Text(context.Background(), &text, plain, s, pick, "x", generate.Options{})
	require.ErrorContains(t, err, "no vocabulary")
}

// What is missing is an error, for one text and for each of several.
func TestTextNeeds(t *testing.T) {
	m := randomModel(t, 32)
	s, pick := open(t, m)
	batch := openGroup(t, m, 1)
	closed := randomModel(t, 32)
	require.NoError(t, closed.Close())
	wordless, err := model.New(m.Config(), nil, 1)
	require.NoError(t, err)
	defer wordless.Close()
	ctx := context.Background()
	for _, c := range []struct {
		want  string
		m     *model.Model
		w     io.Writer
		pick  *sample.Sampler
		s     *infer.Session
		batch *infer.Batch
	}{
		{"the model is nil", nil, io.Discard, pick, s, batch},
		{"model : use of a closed object", closed, io.Discard, pick, s, batch},
		{" has no vocabulary, so text means nothing to it", wordless, io.Discard, pick, s, batch},
		{"the writer is nil; io.Discard takes a text that nobody needs", m, nil, pick, s, batch},
		{"the sampler is nil; sample.New makes one", m, io.Discard, nil, s, batch},
		{"the session is nil", m, io.Discard, pick, nil, batch},
		{"the batch is nil", m, io.Discard, pick, s, nil},
	} {
		o := generate.Options{Limit: testutil.Ptr(1)}
		if c.batch != nil {
			_, err := generate.Text(ctx, c.w, c.m, c.s, c.pick, "x", o)
			require.EqualError(t, err, c.want)
		}
		if c.s != nil {
			for _, r := range generate.Batch(ctx, c.m, c.batch, []generate.Request{{Prompt: "x", W: c.w, Sampler: c.pick, Options: o}}) {
				require.EqualError(t, r.Err, c.want)
			}
		}
	}
}

// A prompt that begins with BOS itself has it once, as a text that is trained has.
func TestOwnBOS(t *testing.T) {
	m := randomModel(t, 64)
	m.Tokenizer = letters(t, nil)
	require.True(t, m.Tokenizer.AddsBOS())
	encoder, err := data.NewEncoder(m.Tokenizer, data.EncoderOptions{})
	require.NoError(t, err)
	for _, text := range []string{"in a", "<s>in a", "<s>", "<s><s>in a", " <s>in a"} {
		s, _ := open(t, m)
		stats, err := generate.Text(context.Background(), io.Discard, m, s, sampler(t, sample.Options{}), text, generate.Options{Limit: testutil.Ptr(0)})
		require.NoError(t, err)
		once := strings.Replace(text, "<s>", "", 1)
		if !strings.HasPrefix(text, "<s>") {
			once = text
		}
		want := m.Tokenizer.Encode(once, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.Equal(t, len(want), stats.Prompt, text)

		record, err := encoder.Encode(data.Example{Format: data.Text, Text: text + "b"})
		require.NoError(t, err)
		ofText, err := data.FromText(m.Tokenizer, text+"b", data.TextOptions{Length: 32})
		require.NoError(t, err)
		row, err := ofText.Row(0)
		require.NoError(t, err)
		trained := m.Tokenizer.Encode(once+"b", tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		require.Equal(t, trained, record.Tokens[:len(trained)], text)
		require.Equal(t, trained, row[0].Tokens, text)
	}
}
