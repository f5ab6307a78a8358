package generate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
)

func sampler(t *testing.T, o sample.Options) *sample.Sampler {
	t.Helper()
	return need.Value(sample.New(o))(t)
}

// Texts continues each text as Text does alone, also if the session has no room for all of
// them, if they end at different times, and if shared beginnings can be restored only at some
// positions.
func TestTexts(t *testing.T) {
	for _, step := range []int{1, 4} {
		t.Run(fmt.Sprint("restorable each ", step), func(t *testing.T) {
			restorableEach(t, step)
			testTexts(t)
		})
	}
}

func testTexts(t *testing.T) {
	m := randomModel(t, 64)
	prompts := []string{"one", "another prompt", "x", "another problem", "another prompt", "the last"}
	var want []string
	for i, prompt := range prompts {
		q, pick := open(t, m)
		var text strings.Builder
		_, err := generate.Text(context.Background(), m, q, generate.Request{Prompt: prompt, W: &text, Sampler: pick, Options: generate.Options{Limit: testutil.Ptr(5 + 4*i), IgnoreEOG: true}})
		require.NoError(t, err)
		want = append(want, text.String())
	}
	for _, room := range []int{1, 3, len(prompts) + 2} {
		got := make([]strings.Builder, len(prompts))
		var requests []generate.Request
		for i, prompt := range prompts {
			requests = append(requests, generate.Request{
				Prompt: prompt, W: &got[i], Sampler: sampler(t, sample.Options{Temperature: 1, Seed: 3}),
				Options: generate.Options{Limit: testutil.Ptr(5 + 4*i), IgnoreEOG: true},
			})
		}
		s := newSession(t, m, room)
		for i, r := range generate.Texts(context.Background(), m, s, requests) {
			require.NoError(t, r.Err)
			require.Equal(t, 5+4*i, r.Generated)
			require.Positive(t, r.Prompt)
			require.Positive(t, r.PromptFor)
			require.Equal(t, want[i], got[i].String())
		}
		require.Equal(t, room, s.Free())
	}
}

// An error of one text does not affect the others.
func TestTextsFail(t *testing.T) {
	m := randomModel(t, 32)
	cause, full := errors.New("enough"), errors.New("the disk is full")
	own, cancel := context.WithCancelCause(context.Background())
	over, stop := context.WithCancelCause(context.Background())
	stop(cause)
	writes := 0
	var texts [6]strings.Builder
	request := func(i int, prompt string, w io.Writer, ctx context.Context) generate.Request {
		return generate.Request{Prompt: prompt, W: io.MultiWriter(&texts[i], w), Sampler: sampler(t, sample.Options{Temperature: 1}), Options: generate.Options{IgnoreEOG: true}, Context: ctx}
	}
	fail := func(n int, err error) io.Writer {
		return writer(func() error {
			if writes++; writes%100 == n {
				return err
			}
			return nil
		})
	}
	requests := []generate.Request{
		request(0, "to the end", io.Discard, nil),
		request(1, "x", writer(func() error { cancel(cause); return nil }), own),
		request(2, "x", fail(10, full), nil),
		request(3, "", io.Discard, nil),
		request(4, "never begins", io.Discard, over),
		request(5, strings.Repeat("long", 20), io.Discard, nil),
	}
	s := newSession(t, m, 3)
	results := generate.Texts(context.Background(), m, s, requests)
	require.ErrorIs(t, results[0].Err, generate.ErrTruncated)
	require.Equal(t, 32-results[0].Prompt+1, results[0].Generated)
	require.ErrorIs(t, results[1].Err, cause)
	require.Equal(t, 1, results[1].Generated)
	require.ErrorIs(t, results[2].Err, full)
	require.ErrorContains(t, results[3].Err, "the prompt is empty")
	require.ErrorIs(t, results[4].Err, cause)
	require.Empty(t, texts[4].String())
	require.ErrorIs(t, results[5].Err, infer.ErrContextFull)
	require.Equal(t, 3, s.Free())

	// A session without any room returns an error instead of waiting forever.
	for s.Free() > 0 {
		newSequence(t, s)
	}
	for _, r := range generate.Texts(context.Background(), m, s, requests[:1]) {
		require.ErrorIs(t, r.Err, infer.ErrSessionFull)
	}
}

// Cancelling ctx ends all texts, also the texts that have not begun.
func TestTextsCancel(t *testing.T) {
	m := randomModel(t, 4096)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var requests []generate.Request
	for range 4 {
		requests = append(requests, generate.Request{
			Prompt: "x", W: writer(func() error { cancel(cause); return nil }), Sampler: sampler(t, sample.Options{Temperature: 1}),
			Options: generate.Options{IgnoreEOG: true},
		})
	}
	s := newSession(t, m, 2)
	for _, r := range generate.Texts(ctx, m, s, requests) {
		require.ErrorIs(t, r.Err, cause)
	}
	require.Equal(t, 2, s.Free())
}

// A writer calls a function at each write.
type writer func() error

func (w writer) Write(b []byte) (int, error) {
	if err := w(); err != nil {
		return 0, err
	}
	return len(b), nil
}

// A writer's panic reaches the caller's goroutine, and no sequence stays open.
func TestTextsAfterPanic(t *testing.T) {
	m := randomModel(t, 64)
	s := newSession(t, m, 3)
	request := func(w io.Writer) generate.Request {
		return generate.Request{Prompt: "a", W: w, Sampler: sampler(t, sample.Options{}), Options: generate.Options{Limit: testutil.Ptr(3), IgnoreEOG: true}}
	}
	require.PanicsWithValue(t, "enough", func() {
		generate.Texts(context.Background(), m, s, []generate.Request{request(io.Discard), request(panickingWriter{}), request(io.Discard)})
	})
	require.Equal(t, 3, s.Free())
	for _, r := range generate.Texts(context.Background(), m, s, []generate.Request{request(io.Discard)}) {
		require.NoError(t, r.Err)
		require.Equal(t, 3, r.Generated)
	}
}

type panickingWriter struct{}

func (panickingWriter) Write([]byte) (int, error) { panic("enough") }

// Texts does not change other sequences of the session.
func TestTextsBesideOthers(t *testing.T) {
	m := randomModel(t, 64)
	s := newSession(t, m, 3)
	other, last := newSequence(t, s), newSequence(t, s)
	want := need.Value(other.Decode(context.Background(), []int32{1, 2, 3}))(t)
	_, err := last.Decode(context.Background(), []int32{1})
	require.NoError(t, err)
	require.NoError(t, other.Close())
	var requests []generate.Request
	for range 3 {
		requests = append(requests, generate.Request{Prompt: "prompt", W: io.Discard, Sampler: sampler(t, sample.Options{}), Options: generate.Options{Limit: testutil.Ptr(3), IgnoreEOG: true}})
	}
	for _, r := range generate.Texts(context.Background(), m, s, requests) {
		require.NoError(t, r.Err)
		require.Equal(t, 3, r.Generated)
	}
	require.Equal(t, 2, s.Free())
	got := need.Value(last.Decode(context.Background(), []int32{2, 3}))(t)
	require.Less(t, refmath.NMSE(got, want), 1e-11)
}

// A limit of 0 computes the prompt and generates no text.
func TestLimitOfNone(t *testing.T) {
	m := randomModel(t, 64)
	none := generate.Options{Limit: testutil.Ptr(0), IgnoreEOG: true}
	q, pick := open(t, m)
	var text strings.Builder
	stats := need.Value(generate.Text(context.Background(), m, q, generate.Request{Prompt: "prompt", W: &text, Sampler: pick, Options: none}))(t)
	require.Zero(t, stats.Generated)
	require.Empty(t, text.String())
	require.Equal(t, stats.Prompt, q.Len())

	s := newSession(t, m, 1)
	for _, r := range generate.Texts(context.Background(), m, s, []generate.Request{{Prompt: "prompt", W: &text, Sampler: pick, Options: none}, {Prompt: "b", W: &text, Sampler: pick, Options: none}}) {
		require.NoError(t, r.Err)
		require.Zero(t, r.Generated)
	}
	require.Empty(t, text.String())
	require.Equal(t, 1, s.Free())
}

func TestReplyOfNone(t *testing.T) {
	m := randomModel(t, 64)
	c, _ := newChat(t, m, generate.ChatOptions{Template: parseTemplate(t, chatML), Limit: testutil.Ptr(0)})
	reply := need.Value(c.Reply(context.Background(), io.Discard, &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "a")}}))(t)
	require.Equal(t, generate.FinishLength, reply.Finish)
	require.Empty(t, reply.Content)
}
