package data

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// The caller's functions run in goroutines of this package: a panic or exit in one is an error of
// Prepare, and leaves no file.
func TestPrepareCallbacks(t *testing.T) {
	samples := []Sample{{Tokens: []int32{1, 2}}, {Tokens: []int32{3, 4}}, {Tokens: []int32{5, 6}}}
	cause := errors.New("a fault")
	encode := func(s Sample) (Sample, error) { return s, nil }
	failingAt := func(token int32, fail func()) func(Sample) (Sample, error) {
		return func(s Sample) (Sample, error) {
			if s.Tokens[0] == token {
				fail()
			}
			return s, nil
		}
	}
	sequence := func(fail func()) iter.Seq2[Sample, error] {
		return func(yield func(Sample, error) bool) {
			yield(samples[0], nil)
			fail()
		}
	}
	for _, c := range []struct {
		name     string
		examples iter.Seq2[Sample, error]
		encode   func(Sample) (Sample, error)
		message  string
	}{
		{"encode panics", sequenceOf(samples), failingAt(3, func() { panic(cause) }), "the function that encodes an example: the function panicked: a fault"},
		{"encode ends its goroutine", sequenceOf(samples), failingAt(1, runtime.Goexit), "the function that encodes an example ended its goroutine"},
		{"the sequence panics", sequence(func() { panic(cause) }), encode, "the sequence of examples: the function panicked: a fault"},
		{"the sequence ends its goroutine", sequence(runtime.Goexit), encode, "the sequence of examples ended its goroutine"},
		{"no sequence", nil, encode, "the examples, or the function that encodes them, are nil"},
		{"no encode", sequenceOf(samples), nil, "the examples, or the function that encodes them, are nil"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := t.TempDir()
			_, _, err := Prepare(context.Background(), c.examples, c.encode, PrepareOptions{Length: 4, Cache: cache, Key: "k"})
			require.EqualError(t, err, c.message)
			var panicked *ggml.PanicError
			if errors.As(err, &panicked) {
				require.ErrorIs(t, err, cause)
				require.Contains(t, string(panicked.Stack), "callbacks_test.go")
			}
			left := need.Value(os.ReadDir(cache))(t)
			require.Empty(t, left)
			// Nothing is locked: preparing the same data again succeeds.
			d, _, err := Prepare(context.Background(), sequenceOf(samples), encode, PrepareOptions{Length: 4, Cache: cache, Key: "k"})
			require.NoError(t, err)
			require.NoError(t, d.Close())
		})
	}
	t.Run("progress panics", func(t *testing.T) { // runs in the caller's goroutine, which can recover the panic
		cache := t.TempDir()
		for range 3 {
			require.PanicsWithValue(t, "enough", func() {
				_, _, _ = Prepare(context.Background(), sequenceOf(samples), encode, PrepareOptions{Length: 4, Cache: cache, Key: "k", Progress: func(Stats) { panic("enough") }})
			})
			left := need.Value(os.ReadDir(cache))(t)
			require.Empty(t, left)
		}
	})
}

// Encode validates PromptMessages, which the caller sets.
func TestEncodePromptMessages(t *testing.T) {
	template := parse(t, "{% for m in messages %}{{ m.role }}{{ m.content }}{% endfor %}")
	for _, mode := range []chat.Mode{chat.All, chat.Last} {
		e := newEncoder(t, byteTokenizer(t, false), EncoderOptions{Template: template, TrainOn: mode})
		for _, n := range []int{-1, 3} {
			x := Example{PromptMessages: n}
			x.Messages = []chat.Message{chat.NewMessage("assistant", "a")}
			_, err := e.Encode(x)
			require.ErrorContains(t, err, "messages, the whole conversation 1")
			_, err = e.Render(x)
			require.ErrorContains(t, err, "messages, the whole conversation 1")
		}
	}
}

// Reading fails after too many consecutive empty reads.
func TestTextOfNothing(t *testing.T) {
	for _, marker := range []string{"", "#"} {
		_, _, err := Prepare(context.Background(), TextSamples(byteTokenizer(t, false), silent{}, TextOptions{Length: 4, SampleStart: marker}),
			func(s Sample) (Sample, error) { return s, nil }, PrepareOptions{Length: 4})
		require.ErrorIs(t, err, io.ErrNoProgress)
	}
	_, err := FromText(nil, "text", TextOptions{Length: 4})
	require.EqualError(t, err, "the vocabulary, or the reader of the text, is nil")
	_, err = FromText(byteTokenizer(t, false), "text", TextOptions{Length: math.MaxInt})
	require.EqualError(t, err, "samples of 9223372036854775807 tokens are too long; the limit is 2147483647")
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }
