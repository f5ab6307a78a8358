package llm_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
)

func question(text string) *chat.Conversation {
	return &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", text)}}
}

// A model serves conversations, completions and embeddings at once. Each gets what it gets from a model of its own.
func TestModelServesAll(t *testing.T) {
	const asked, known = "Why is the sky blue?", "Because air scatters blue light most."
	vectors, err := llm.Embed(context.Background(), "model.gguf", llm.Options{}, "Postage", "How long?")
	require.NoError(t, err)
	m, err := llm.Open("model.gguf", llm.Options{Session: infer.SessionOptions{Sequences: 3}})
	require.NoError(t, err)
	defer m.Close()
	var wait sync.WaitGroup
	for i := range 12 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			switch i % 3 {
			case 0:
				tokens, reply := m.Chat(context.Background(), question(asked), sample.Options{}, generate.ChatOptions{})
				for _, err := range tokens {
					assert.NoError(t, err)
				}
				assert.Equal(t, known, reply.Content)
				assert.Equal(t, generate.FinishStop, reply.Finish)
			case 1:
				text := ""
				tokens, _ := m.Complete(context.Background(), fmt.Sprintf("<|user|>%s<|end|><|assistant|>", asked), sample.Options{}, generate.Options{Stop: []string{" blue"}, LogProbs: true, TopLogProbs: 2})
				for token, err := range tokens {
					assert.NoError(t, err)
					text += token.Text
					if assert.Len(t, token.Top, 2) {
						assert.Equal(t, generate.LogProb{ID: token.ID, LogProb: token.LogProb}, token.Top[0], "the most likely token was taken")
						assert.Less(t, token.Top[1].LogProb, token.LogProb)
					}
				}
				assert.Equal(t, "Because air scatters", text)
			case 2:
				got, err := m.Embed(context.Background(), []string{"Postage", "How long?"}, infer.EmbedOptions{})
				assert.NoError(t, err)
				for i := range vectors {
					assert.InDeltaSlice(t, vectors[i], got[i], 1e-4)
				}
			}
		}()
	}
	wait.Wait()
}

// Another sequence costs its cache alone: the weights are shared.
func TestMemoryOfSequences(t *testing.T) {
	open := func(sequences int) (objects map[string]int, cache int64) {
		m, err := llm.Open("model.gguf", llm.Options{Session: infer.SessionOptions{Sequences: sequences}})
		require.NoError(t, err)
		defer m.Close()
		return ggml.OpenObjects(), m.Memory().Total()
	}
	objects, cache := open(1)
	require.Positive(t, cache)
	same, caches := open(4)
	require.Equal(t, objects, same, "no further buffers")
	require.Equal(t, 4*cache, caches)
}

// A nil, zero or closed model, and wrong options, return errors.
func TestModelErrors(t *testing.T) {
	for _, m := range []*llm.Model{nil, {}} {
		require.NoError(t, m.Close())
		require.Nil(t, m.Weights())
		require.Zero(t, m.Context()+m.Sequences())
		_, err := m.Embed(context.Background(), nil, infer.EmbedOptions{})
		require.ErrorContains(t, err, "the model is")
		tokens, _ := m.Chat(context.Background(), nil, sample.Options{}, generate.ChatOptions{})
		for _, err := range tokens {
			require.ErrorContains(t, err, "the model is")
		}
	}
	open := len(ggml.OpenObjects())
	for want, o := range map[string]llm.Options{
		"no.gguf": {Adapters: []string{"no.gguf"}},
		"a scheduler cannot have chunks of -1 tokens": {Scheduler: generate.SchedulerOptions{Chunk: -1}},
	} {
		_, err := llm.Open("model.gguf", o)
		require.ErrorContains(t, err, want)
	}
	m, err := llm.Open("model.gguf", llm.Options{})
	require.NoError(t, err)
	tokens, _ := m.Complete(context.Background(), "a", sample.Options{TopK: -1}, generate.Options{Limit: testutil.Ptr(1)})
	for _, err := range tokens {
		require.ErrorContains(t, err, "top-k -1")
	}
	_, err = m.Rerank(context.Background(), "a", []string{"b"})
	require.ErrorContains(t, err, "is not a reranker")
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	require.Len(t, ggml.OpenObjects(), open)
	tokens, _ = m.Chat(context.Background(), question("a"), sample.Options{}, generate.ChatOptions{})
	for _, err := range tokens {
		require.ErrorIs(t, err, ggml.ErrClosed)
	}
}

// Adapters beside a model are chosen by request, with a strength; requests with different ones run at the same time.
func TestAdaptersOfRequests(t *testing.T) {
	const sky, delivery = "Because air scatters blue light most.", "Five days within the country."
	open := len(ggml.OpenObjects())
	m, err := llm.Open("model.gguf", llm.Options{Session: infer.SessionOptions{Sequences: 6}})
	require.NoError(t, err)
	desk, err := m.LoadAdapter(context.Background(), "runs/desk", 1)
	require.NoError(t, err)
	off, err := m.LoadAdapter(context.Background(), "runs/desk/adapter.gguf", 0)
	require.NoError(t, err)
	ask := func(a *llm.Adapter, text string) (string, error) {
		tokens, reply := m.Chat(context.Background(), question(text), sample.Options{}, generate.ChatOptions{Adapters: a.Prepared()})
		for _, err := range tokens {
			if err != nil {
				return "", err
			}
		}
		return reply.Content, nil
	}
	without, err := ask(nil, "How long does delivery take?")
	require.NoError(t, err)
	require.NotEqual(t, delivery, without)
	var wait sync.WaitGroup
	for i := range 18 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			switch i % 3 {
			case 0:
				got, err := ask(nil, "Why is the sky blue?")
				assert.NoError(t, err)
				assert.Equal(t, sky, got)
			case 1:
				got, err := ask(desk, "How long does delivery take?")
				assert.NoError(t, err)
				assert.Equal(t, delivery, got)
			case 2:
				got, err := ask(off, "How long does delivery take?")
				assert.NoError(t, err)
				assert.Equal(t, without, got)
			}
		}()
	}
	wait.Wait()
	require.NoError(t, off.Close(context.Background()))
	require.NoError(t, off.Close(context.Background()))
	_, err = ask(off, "a")
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = m.LoadAdapter(context.Background(), "no.gguf", 1)
	require.ErrorContains(t, err, "no.gguf")
	got, err := ask(desk, "How long does delivery take?")
	require.NoError(t, err)
	require.Equal(t, delivery, got)
	require.NoError(t, m.Close())
	require.Len(t, ggml.OpenObjects(), open)
}

// A nil and a zero adapter return errors or do nothing.
func TestZeroAdapter(t *testing.T) {
	var none *llm.Adapter
	require.NoError(t, none.Close(context.Background()))
	require.Nil(t, none.Prepared())
	require.ErrorIs(t, new(llm.Adapter).Close(context.Background()), ggml.ErrZeroValue)
	_, err := new(llm.Model).LoadAdapter(context.Background(), "runs/desk", 1)
	require.ErrorIs(t, err, ggml.ErrZeroValue)
}
