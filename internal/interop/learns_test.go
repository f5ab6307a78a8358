//go:build interop

package interop

import (
	"context"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/instructtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

// An adapter teaches bases of several types to answer instructions that they have not seen and could not
// answer, here and in stock llama.cpp, which renders the chat template.
func TestInteropInstructions(t *testing.T) {
	const trained, held = 1500, 200
	words := instructtest.Words(1, trained+held)
	types := []ggml.Type{ggml.F32, ggml.Q8_0, ggml.Q4_K}
	for i, path := range instructtest.Base(t, 256, 120, types...) {
		t.Run(types[i].String(), func(t *testing.T) {
			m := need.Value(model.Load(path, model.LoadOptions{}))(t)
			defer m.Close()
			require.Equal(t, types[i], m.Weight("blk.0.ffn_down.weight").Type())
			require.Equal(t, types[i], m.Weight("output.weight").Type())
			require.Zero(t, countRight(words[trained:], ourAnswers(t, m, nil)))
			require.Zero(t, countRight(words[trained:], stockAnswers(t, path)))

			a := instructtest.Adapter(t, m, words[:trained])
			file := filepath.Join(t.TempDir(), "adapter.gguf")
			require.NoError(t, a.Save(file, lora.SaveOptions{}))
			ours := countRight(words[trained:], ourAnswers(t, m, a.WithScale(1)))
			theirs := countRight(words[trained:], stockAnswers(t, path, "--lora", file))
			t.Logf("right answers to %d prompts: %d here, %d by llama-server", held, ours, theirs)
			require.GreaterOrEqual(t, ours, held*99/100)
			require.GreaterOrEqual(t, theirs, held*99/100)
		})
	}
}

// countRight counts the words whose answer is correct and ended by the model.
func countRight(words []string, answer func(word string) (string, bool)) (right int) {
	for _, word := range words {
		if text, ended := answer(word); ended && text == instructtest.Answer(word) {
			right++
		}
	}
	return right
}

const answerLimit = 8

// ourAnswers answers with a greedy chat.
func ourAnswers(t *testing.T, m *model.Model, adapters model.Adapters) func(word string) (string, bool) {
	s := need.Value(infer.NewSession(m, infer.SessionOptions{Adapters: adapters, Threads: 1}))(t)
	t.Cleanup(func() { s.Close() })
	q := need.Value(s.NewSequence())(t)
	greedy := need.Value(sample.New(sample.Options{}))(t)
	c := need.Value(generate.NewChat(m, q, greedy, generate.ChatOptions{Limit: testutil.Ptr(answerLimit)}))(t)
	return func(word string) (string, bool) {
		reply := need.Value(c.Reply(context.Background(), io.Discard, &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", word)}}))(t)
		return reply.Content, reply.Finish == generate.FinishStop
	}
}

// stockAnswers answers with a llama-server.
func stockAnswers(t *testing.T, path string, flags ...string) func(word string) (string, bool) {
	server := startServer(t, path, append(flags, "-c", "128")...)
	return func(word string) (string, bool) {
		var answer stockReply
		require.True(t, server.post(t, "/v1/chat/completions", map[string]any{
			"messages": []chat.Message{chat.NewMessage("user", word)}, "temperature": 0, "max_tokens": answerLimit,
		}, &answer))
		return answer.Choices[0].Message.Content, answer.Choices[0].FinishReason == "stop"
	}
}
