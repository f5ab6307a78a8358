package generate_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

func newScheduler(t *testing.T, m *model.Model, session infer.SessionOptions, o generate.SchedulerOptions) *generate.Scheduler {
	t.Helper()
	session.Threads = 1
	s, err := infer.NewSession(m, session)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	c, err := generate.NewScheduler(m, s, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.Equal(t, max(1, session.Sequences), s.Free(), "it leaves no sequence open")
	})
	return c
}

// Concurrent texts get the tokens that each gets alone, whatever the states that the model keeps: more texts than
// sequences, prompts with shared beginnings and of many chunks, further turns, and texts that are cancelled or left
// between them.
func TestSchedulerGeneratesAsAlone(t *testing.T) {
	for _, name := range []string{"llama", "gemma3", "qwen35", "mamba2"} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			m.Tokenizer = letters(t, nil)
			base := strings.Repeat("abcdefgh", 4)
			var prompts []string
			for i := range 9 {
				prompts = append(prompts, base[:4*i]+strings.Repeat(string(rune('a'+i)), 1+3*i))
			}
			single, err := infer.NewSession(m, infer.SessionOptions{Context: 96, Threads: 1})
			require.NoError(t, err)
			defer single.Close()
			alone := newSequence(t, single)
			var want [][]int32
			request := func(prompt string, limit int) generate.Request {
				return generate.Request{Prompt: prompt, Sampler: sampler(t, sample.Options{RepeatPenalty: 1.5}), Options: generate.Options{Limit: &limit, IgnoreEOG: true}}
			}
			for i, prompt := range prompts {
				rewind(t, alone, 0)
				tokens, _ := generate.Stream(context.Background(), m, alone, request(prompt, 4+i))
				all, err := collect(tokens)
				require.NoError(t, err)
				want = append(want, idsOf(all))
			}
			s := newScheduler(t, m, infer.SessionOptions{Sequences: 4, Context: 96, Batch: 16}, generate.SchedulerOptions{Chunk: 5})
			var all testutil.Goroutines
			for i, prompt := range prompts {
				all.Go(func() {
					for range 2 { // the second time, beginnings are in the session
						tokens, stats := s.Stream(context.Background(), request(prompt, 4+i))
						got, err := collect(tokens)
						assert.NoError(t, err)
						assert.Equal(t, want[i], idsOf(got), "prompt %d", i)
						assert.Equal(t, 4+i, stats.Generated)
						assert.Equal(t, generate.FinishLength, stats.Finish)
					}
				})
				all.Go(func() {
					ctx, cancel := context.WithCancelCause(context.Background())
					defer cancel(nil)
					enough := errors.New("enough")
					tokens, _ := s.Stream(ctx, request(prompt, 30))
					for token, err := range tokens {
						switch {
						case i%3 == 0: // leaves the loop
							return
						case err != nil:
							assert.ErrorIs(t, err, enough)
							assert.EqualValues(t, -1, token.ID)
						case i%3 == 1:
							cancel(enough)
						}
					}
				})
			}
			all.Wait()
			load := s.Load()
			assert.Zero(t, load.Waiting)
			assert.Positive(t, load.Cached)
			assert.GreaterOrEqual(t, load.Requests, 2*len(prompts))
		})
	}
}

// The turns of a conversation are computed once, beside others, and answered as by a Chat of its own. The conversations begin
// differently, so that none takes the sequence of another.
func TestSchedulerChats(t *testing.T) {
	m := randomModel(t, 256)
	o := generate.ChatOptions{Template: parseTemplate(t, chatML), Limit: testutil.Ptr(8)}
	ask := func(first string, answer func([]string) (generate.Reply, error)) (replies []string, cached []int) {
		var talk []string
		for _, turn := range []string{first, "and why", "so"} {
			talk = append(talk, turn)
			reply, err := answer(talk)
			assert.NoError(t, err)
			talk = append(talk, reply.Content)
			replies, cached = append(replies, reply.Content), append(cached, reply.Cached)
		}
		return replies, cached
	}
	s := newScheduler(t, m, infer.SessionOptions{Sequences: 4, Context: 256}, generate.SchedulerOptions{Template: o.Template, Chunk: 8}) // one is spare
	var all testutil.Goroutines
	for _, first := range []string{"who are you", "name three rivers", "is it late"} {
		c, _ := newChat(t, m, o)
		want, wantCached := ask(first, func(talk []string) (generate.Reply, error) {
			return c.Reply(context.Background(), new(strings.Builder), dialogue(talk...))
		})
		all.Go(func() {
			got, cached := ask(first, func(talk []string) (generate.Reply, error) {
				tokens, reply := s.Chat(context.Background(), dialogue(talk...), sampler(t, sample.Options{RepeatPenalty: 1.3}), generate.ChatOptions{Limit: o.Limit})
				_, err := collect(tokens)
				return *reply, err
			})
			assert.Equal(t, want, got)
			for i := range cached {
				assert.GreaterOrEqual(t, cached[i], wantCached[i])
			}
		})
	}
	all.Wait()
}

// endless begins a text that is generated until the test ends, and waits for its first token.
func endless(t *testing.T, s *generate.Scheduler) {
	t.Helper()
	tokens, _ := s.Stream(context.Background(), generate.Request{Prompt: "a", Sampler: sampler(t, sample.Options{}), Options: generate.Options{IgnoreEOG: true}})
	next, stop := iter.Pull2(tokens)
	t.Cleanup(stop)
	_, err, _ := next()
	require.NoError(t, err)
}

// Texts that are generated get tokens while a long prompt is computed, a chunk of it between any two.
func TestSchedulerComputesPromptsInChunks(t *testing.T) {
	m := randomModel(t, 1<<17)
	s := newScheduler(t, m, infer.SessionOptions{Sequences: 2, Context: 1 << 17}, generate.SchedulerOptions{Chunk: 4})
	endless(t, s)
	before := s.Load().Passes
	tokens, stats := s.Stream(context.Background(), generate.Request{Prompt: strings.Repeat("long ", 30), Sampler: sampler(t, sample.Options{}), Options: generate.Options{Limit: testutil.Ptr(1), IgnoreEOG: true}})
	_, err := collect(tokens)
	require.NoError(t, err)
	require.GreaterOrEqual(t, s.Load().Passes-before, (stats.Prompt-1)/4, "a token of the other text between any two chunks")
}

// A short prompt does not wait for long ones that came before.
func TestSchedulerComputesShortPromptsBesideLongOnes(t *testing.T) {
	m := randomModel(t, 1<<17)
	s := newScheduler(t, m, infer.SessionOptions{Sequences: 4, Context: 1 << 17}, generate.SchedulerOptions{Chunk: 2})
	ctx, cancel := context.WithCancel(context.Background())
	begin := func(prompt string) error {
		tokens, _ := s.Stream(ctx, generate.Request{Prompt: prompt, Sampler: sampler(t, sample.Options{}), Options: generate.Options{Limit: testutil.Ptr(1), IgnoreEOG: true}})
		_, err := collect(tokens)
		return err
	}
	endless(t, s)
	var all testutil.Goroutines
	for _, start := range []string{"x", "y"} {
		all.Go(func() { assert.ErrorIs(t, begin(start+strings.Repeat("long ", 10000)), context.Canceled) })
	}
	require.Eventually(t, func() bool { return s.Load().Running == 3 }, time.Minute, time.Millisecond)
	require.NoError(t, begin("b"))
	require.Equal(t, 1, s.Load().Requests, "the long prompts take 25,000 passes")
	cancel()
	all.Wait()
}

// Requests wait in order, up to a number; cancelled ones leave the queue. Close ends those that run and those that wait.
func TestSchedulerQueue(t *testing.T) {
	m := randomModel(t, 1<<17)
	s := newScheduler(t, m, infer.SessionOptions{Context: 1 << 17}, generate.SchedulerOptions{Queue: 2})
	stream := func(ctx context.Context) error {
		tokens, _ := s.Stream(ctx, generate.Request{Prompt: "a", Sampler: sampler(t, sample.Options{}), Options: generate.Options{IgnoreEOG: true}})
		_, err := collect(tokens)
		return err
	}
	ends := make(chan error, 3)
	begin := func(ctx context.Context, waiting int) {
		go func() { ends <- stream(ctx) }()
		require.Eventually(t, func() bool { l := s.Load(); return l.Running == 1 && l.Waiting == waiting }, time.Minute, time.Millisecond)
	}
	begin(context.Background(), 0)
	ctx, cancel := context.WithCancel(context.Background())
	begin(ctx, 1)
	begin(context.Background(), 2)
	require.ErrorIs(t, stream(context.Background()), generate.ErrQueueFull)
	_, err := s.Embed(context.Background(), []string{"a"}, infer.EmbedOptions{})
	require.ErrorIs(t, err, generate.ErrQueueFull)
	cancel()
	require.ErrorIs(t, <-ends, context.Canceled)
	require.NoError(t, s.Close())
	for range 2 {
		require.ErrorIs(t, <-ends, ggml.ErrClosed)
	}
	require.ErrorIs(t, stream(context.Background()), ggml.ErrClosed)
}

// Texts are embedded beside others that are generated, as in a session of their own.
func TestSchedulerEmbeds(t *testing.T) {
	for _, name := range []string{"llama", "dream"} {
		t.Run(name, func(t *testing.T) {
			m := llmtest.ArchModel(t, name, ggml.F32)
			m.Tokenizer = letters(t, nil)
			texts := []string{"a", strings.Repeat("abc", 6), "who", strings.Repeat("x", 20), "b"}
			want, err := generate.Embed(context.Background(), m, newSession(t, m, 1), texts, infer.EmbedOptions{})
			require.NoError(t, err)
			s := newScheduler(t, m, infer.SessionOptions{Sequences: 2, Context: 64, Batch: 16}, generate.SchedulerOptions{})
			var all testutil.Goroutines
			for i := range 4 {
				all.Go(func() {
					if m.Architecture().IsCausal() && i > 0 {
						tokens, _ := s.Stream(context.Background(), generate.Request{Prompt: fmt.Sprint("text ", i), Sampler: sampler(t, sample.Options{}), Options: generate.Options{Limit: testutil.Ptr(20), IgnoreEOG: true}})
						_, err := collect(tokens)
						assert.NoError(t, err)
					}
					got, err := s.Embed(context.Background(), texts, infer.EmbedOptions{})
					if assert.NoError(t, err) {
						for i := range want {
							assert.InDeltaSlice(t, want[i], got[i], 1e-4)
						}
					}
				})
			}
			all.Wait()
			_, err = s.Embed(context.Background(), append(slices.Clone(texts), strings.Repeat("long", 40)), infer.EmbedOptions{})
			require.ErrorIs(t, err, infer.ErrContextFull)
			require.ErrorContains(t, err, "text 6: ")
		})
	}
}

// A long text to embed is computed in chunks: another text gets a token between any two. With adapters it equals the same
// text in a session.
func TestSchedulerEmbedsInChunks(t *testing.T) {
	m := randomModel(t, 1<<17)
	adapters := llmtest.NewLoRASetup(t, m, 3, 0.75).Adapters
	long := []string{strings.Repeat("long ", 30)}
	want, err := generate.Embed(context.Background(), m, newSession(t, m, 1), long, infer.EmbedOptions{})
	require.NoError(t, err)
	s := newScheduler(t, m, infer.SessionOptions{Sequences: 2, Context: 1 << 17}, generate.SchedulerOptions{Chunk: 4})
	prepared, err := s.NewAdapters(context.Background(), adapters)
	require.NoError(t, err)
	endless(t, s)
	before := s.Load().Passes
	got, err := s.Embed(context.Background(), long, infer.EmbedOptions{})
	require.NoError(t, err)
	require.InDeltaSlice(t, want[0], got[0], 1e-4)
	require.GreaterOrEqual(t, s.Load().Passes-before, len(long[0])/4-1)
	adapted, err := s.Embed(context.Background(), long, infer.EmbedOptions{Adapters: prepared})
	require.NoError(t, err)
	require.NotEqual(t, got, adapted)
	require.NoError(t, s.CloseAdapters(context.Background(), prepared))
	_, err = s.Embed(context.Background(), long, infer.EmbedOptions{Adapters: prepared})
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// A nil, zero or closed scheduler, and wrong requests, return errors.
func TestSchedulerErrors(t *testing.T) {
	m := randomModel(t, 32)
	for _, s := range []*generate.Scheduler{nil, {}} {
		require.NoError(t, s.Close())
		require.Zero(t, s.Load())
		_, err := s.Embed(context.Background(), []string{"a"}, infer.EmbedOptions{})
		require.ErrorContains(t, err, "the scheduler is")
	}
	_, err := generate.NewScheduler(m, nil, generate.SchedulerOptions{})
	require.ErrorIs(t, err, ggml.ErrZeroValue)
	_, err = generate.NewScheduler(m, newSession(t, m, 1), generate.SchedulerOptions{Chunk: -1})
	require.EqualError(t, err, "a scheduler cannot have chunks of -1 tokens and a queue of 0 requests; 0 is the default")
	s := newScheduler(t, m, infer.SessionOptions{Context: 32}, generate.SchedulerOptions{})
	for want, r := range map[string]generate.Request{
		"the sampler is nil; sample.New makes one":                                               {Prompt: "a"},
		"the context is full: the prompt has 40 tokens, but the context holds 32":                {Prompt: strings.Repeat("a", 40), Sampler: sampler(t, sample.Options{})},
		"the request has a writer, which only Text uses; Stream yields the tokens to its caller": {Prompt: "a", W: new(strings.Builder)},
	} {
		tokens, _ := s.Stream(context.Background(), r)
		_, err := collect(tokens)
		require.EqualError(t, err, want)
	}
	tokens, _ := s.Chat(context.Background(), dialogue("a"), sampler(t, sample.Options{}), generate.ChatOptions{})
	_, err = collect(tokens)
	require.ErrorContains(t, err, "the model has no chat template")
	tokens, stats := s.Stream(context.Background(), generate.Request{Prompt: "a", Sampler: sampler(t, sample.Options{}), Options: generate.Options{IgnoreEOG: true}})
	_, err = collect(tokens)
	require.ErrorIs(t, err, generate.ErrTruncated)
	require.Equal(t, generate.FinishLength, stats.Finish)
}

// Requests to a session that is closed, or whose sequences others have taken, fail instead of waiting forever.
func TestSchedulerWithoutRoom(t *testing.T) {
	m := randomModel(t, 32)
	session := newSession(t, m, 1)
	s, err := generate.NewScheduler(m, session, generate.SchedulerOptions{})
	require.NoError(t, err)
	defer s.Close()
	requireFails := func(want error) {
		t.Helper()
		_, err := s.Embed(context.Background(), []string{"a"}, infer.EmbedOptions{})
		require.ErrorIs(t, err, want)
		tokens, _ := s.Stream(context.Background(), generate.Request{Prompt: "a", Sampler: sampler(t, sample.Options{})})
		_, err = collect(tokens)
		require.ErrorIs(t, err, want)
	}
	_, err = session.NewSequence()
	require.NoError(t, err)
	requireFails(infer.ErrSessionFull)
	require.NoError(t, session.Close())
	requireFails(ggml.ErrClosed)
}

// Every request that meets Close returns, in whatever order they come.
func TestSchedulerClosesAmidRequests(t *testing.T) {
	m := randomModel(t, 32)
	session := newSession(t, m, 2)
	for range 3000 {
		s, err := generate.NewScheduler(m, session, generate.SchedulerOptions{})
		require.NoError(t, err)
		var all testutil.Goroutines
		for range 3 {
			all.Go(func() {
				err := error(nil)
				for err == nil {
					_, err = s.Embed(context.Background(), nil, infer.EmbedOptions{})
				}
				assert.ErrorIs(t, err, ggml.ErrClosed)
			})
		}
		require.NoError(t, s.Close())
		all.Wait()
	}
}
