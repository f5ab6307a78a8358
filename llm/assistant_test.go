package llm_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/run"
	"github.com/goggml/ggml/llm/sample"
)

// The code blocks in the package documentation occur in the Examples, which run.
func TestDocumentedCode(t *testing.T) {
	read := func(name string) string {
		text := need.Value(os.ReadFile(filepath.Join(source, name)))(t)
		return string(text)
	}
	examples := read("example_assistant_test.go") + read("example_embed_test.go") + read("example_rerank_test.go")
	blocks := 0
	for _, block := range regexp.MustCompile(`(?m)(^//\t.*\n)+`).FindAllString(read("doc.go"), -1) {
		require.Contains(t, examples, strings.ReplaceAll(block, "//\t", "\t"))
		blocks++
	}
	require.Equal(t, 3, blocks)
}

// If opening fails, nothing stays open, and the error says why.
func TestOpenErrors(t *testing.T) {
	open := len(ggml.OpenObjects())
	for _, c := range []struct {
		path string
		o    llm.Options
		want string
	}{
		{"no.gguf", llm.Options{}, "no.gguf"},
		{"model.gguf", llm.Options{Adapters: []string{"no.gguf"}}, "no.gguf"},
		{"model.gguf", llm.Options{Session: infer.SessionOptions{Context: -1}}, "a context cannot have -1 tokens"},
		{"model.gguf", llm.Options{Session: infer.SessionOptions{Adapters: model.Adapters{}}}, "Options.Session.Adapters are set: name their files in Options.Adapters"},
		{"model.gguf", llm.Options{Sampling: sample.Options{TopK: -1}}, "top-k -1"},
	} {
		_, err := llm.NewAssistant(c.path, c.o)
		require.ErrorContains(t, err, c.want)
		require.Len(t, ggml.OpenObjects(), open)
	}
	_, err := llm.Embed(context.Background(), "no.gguf", llm.Options{}, "a")
	require.ErrorContains(t, err, "no.gguf")
	_, err = llm.Embed(context.Background(), "model.gguf", llm.Options{}, "a", "")
	require.EqualError(t, err, "text 2 is empty, and the model has no token that begins a text")
	require.Len(t, ggml.OpenObjects(), open)
}

// An adapter is a file or the folder of the run that trained it. An unknown field in a PEFT adapter is logged.
func TestAdapterOfRun(t *testing.T) {
	m := need.Value(model.Load("model.gguf", model.LoadOptions{}))(t)
	defer m.Close()
	a := need.Value(lora.New(m, lora.Options{Rank: 2}))(t)
	defer a.Close()
	for _, p := range a.Pairs() {
		values := make([]float32, p.B.NumElements())
		for i := range values {
			values[i] = float32(i%7) - 3
		}
		require.NoError(t, ggml.Write(p.B, values))
	}
	require.NoError(t, os.RemoveAll("runs/other"))
	require.NoError(t, os.MkdirAll("runs/other", 0o700))
	require.NoError(t, os.WriteFile("runs/other/manifest.json", []byte("{}"), 0o600))
	embed := func(adapters ...string) []float32 {
		vectors := need.Value(llm.Embed(context.Background(), "model.gguf", llm.Options{Adapters: adapters}, "a"))(t)
		return vectors[0]
	}
	_, err := llm.Embed(context.Background(), "model.gguf", llm.Options{Adapters: []string{"runs/other"}}, "a")
	var none *run.NoResultError
	require.ErrorAs(t, err, &none)
	require.NoError(t, a.Save("runs/other/adapter.gguf", lora.SaveOptions{}))
	require.Equal(t, embed("runs/other/adapter.gguf"), embed("runs/other"))
	require.NotEqual(t, embed(), embed("runs/other"))

	require.NoError(t, a.SavePEFT("peft", lora.PEFTOptions{}))
	config := need.Value(os.ReadFile("peft/adapter_config.json"))(t)
	require.NoError(t, os.WriteFile("peft/adapter_config.json", []byte(strings.Replace(string(config), "{", `{"new_field": true,`, 1)), 0o600))
	var log bytes.Buffer
	before := ggml.Logger()
	ggml.SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	defer ggml.SetLogger(before)
	require.Equal(t, embed("runs/other"), embed("peft"))
	require.Contains(t, log.String(), "new_field")
}

// The zero Assistant returns errors and does not panic.
func TestZeroAssistant(t *testing.T) {
	for _, a := range []*llm.Assistant{nil, {}} {
		require.NoError(t, a.Close())
		_, err := a.Reply(context.Background(), io.Discard, nil)
		require.EqualError(t, err, "the chat is nil")
		tokens, _ := a.Stream(context.Background(), nil)
		for _, err := range tokens {
			require.EqualError(t, err, "the chat is nil")
		}
	}
}

// Embed equals the session's embeddings of the text's tokens, with and without an adapter.
func TestEmbedIsOfSession(t *testing.T) {
	ctx, texts := context.Background(), []string{"Postage", "Why is the sky blue?"}
	o := llm.Options{Embed: infer.EmbedOptions{Pooling: infer.PoolLast, Normalize: true}}
	got := need.Value(llm.Embed(ctx, "model.gguf", o, texts...))(t)
	m := need.Value(model.Load("model.gguf", model.LoadOptions{}))(t)
	defer m.Close()
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Sequences: len(texts)}))(t)
	defer s.Close()
	want := need.Value(generate.Embed(ctx, m, s, texts, o.Embed))(t)
	require.Equal(t, want, got)
}

// Embed and Rerank accept encoders, and name what a model of the wrong kind lacks.
func TestEncoders(t *testing.T) {
	ctx := context.Background()
	vectors := need.Value(llm.Embed(ctx, "bert.gguf", llm.Options{Embed: infer.EmbedOptions{Normalize: true}}, "postage", "how long"))(t)
	require.Len(t, vectors, 2)
	scores := need.Value(llm.Rerank(ctx, "reranker.gguf", llm.Options{}, "how long", "five days", "free", "five days"))(t)
	require.Equal(t, scores[0], scores[2])
	require.NotEqual(t, scores[0], scores[1])
	alone := need.Value(llm.Rerank(ctx, "reranker.gguf", llm.Options{}, "how long", "free"))(t)
	require.InDelta(t, scores[1], alone[0], 1e-5)

	_, err := llm.Rerank(ctx, "model.gguf", llm.Options{}, "how long", "free")
	require.ErrorContains(t, err, "model.gguf is not a reranker: it has no classifier (cls.weight or cls.output.weight) to score texts")
	_, err = llm.Embed(ctx, "reranker.gguf", llm.Options{}, "free")
	require.ErrorContains(t, err, "for a reranker, use Session.Score")
	_, err = llm.NewAssistant("bert.gguf", llm.Options{})
	require.ErrorIs(t, err, arch.ErrNoLogits)
}

// Without a seed, each assistant samples differently; with a seed, all sample the same tokens.
func TestAssistantSeed(t *testing.T) {
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}}
	answer := func(seed uint64) string {
		a := need.Value(llm.NewAssistant("model.gguf", llm.Options{
			Sampling: sample.Options{Temperature: 9, Seed: seed}, Chat: generate.ChatOptions{Limit: testutil.Ptr(40), ShowSpecial: true},
		}))(t)
		defer a.Close()
		reply := need.Value(a.Reply(context.Background(), io.Discard, talk))(t)
		return reply.Content
	}
	require.Equal(t, answer(1), answer(1))
	drawn := map[string]bool{}
	for range 8 { // some answers may end immediately
		drawn[answer(0)] = true
	}
	require.Greater(t, len(drawn), 1)
}

// An assistant shared by goroutines returns complete answers or errors, never part of an answer.
func TestAssistantInUse(t *testing.T) {
	a, err := llm.NewAssistant("model.gguf", llm.Options{})
	require.NoError(t, err)
	defer a.Close()
	ctx := context.Background()
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}}
	const inUse = "another call is using the Assistant, and only one goroutine may at a time; give each goroutine its own, or let them take turns with a mutex"
	tokens, reply := a.Stream(ctx, talk)
	for _, err := range tokens { // other goroutines ask between tokens
		require.NoError(t, err)
		var wait sync.WaitGroup
		for range 4 {
			wait.Add(1)
			go func() {
				defer wait.Done()
				got, err := a.Reply(ctx, io.Discard, talk)
				assert.EqualError(t, err, "Assistant.Reply: "+inUse)
				assert.Empty(t, got.Content)
				tokens, _ := a.Stream(ctx, talk)
				for token, err := range tokens {
					assert.EqualError(t, err, "Assistant.Stream: "+inUse)
					assert.Empty(t, token.Text)
				}
			}()
		}
		wait.Wait()
	}
	require.Equal(t, "Because air scatters blue light most.", reply.Content)
	got := need.Value(a.Reply(ctx, io.Discard, talk))(t)
	require.Equal(t, reply.Content, got.Content)
}

// An assistant continues a conversation.
func TestAssistantGoesOn(t *testing.T) {
	a, err := llm.NewAssistant("model.gguf", llm.Options{})
	require.NoError(t, err)
	defer a.Close()
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Why is the sky blue?")}}
	tokens, reply := a.Stream(context.Background(), talk)
	for _, err := range tokens {
		require.NoError(t, err)
	}
	require.Equal(t, "Because air scatters blue light most.", reply.Content)
	talk.Messages = append(talk.Messages, chat.NewMessage("assistant", reply.Content), chat.NewMessage("user", "Really?"))
	tokens, reply = a.Stream(context.Background(), talk)
	for range tokens {
		break
	}
	require.Positive(t, reply.Cached)
}
