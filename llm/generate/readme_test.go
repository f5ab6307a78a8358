package generate_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// answer is the README's program that chats.
func answer() string {
	m := must(model.Load("model.gguf", model.LoadOptions{Repack: true}))
	defer m.Close()
	adapter := must(lora.Load("runs/desk/adapter.gguf", m))
	defer adapter.Close()
	session := must(infer.NewSession(m, infer.SessionOptions{Adapters: adapter.WithScale(1)}))
	defer session.Close()
	sequence := must(session.NewSequence())
	sampler := must(sample.New(sample.Options{Temperature: 0.7, TopK: 40, Seed: 1}))
	assistant := must(generate.NewChat(m, sequence, sampler, generate.ChatOptions{}))
	var talk chat.Conversation
	talk.Messages = append(talk.Messages, chat.NewMessage("user", "What is a full service?"))
	reply := must(assistant.Reply(context.Background(), os.Stdout, &talk)) // any io.Writer gets the words as they come
	talk.Messages = append(talk.Messages, chat.NewMessage("assistant", reply.Content))
	return reply.Content
}

// The README's Go code that chats is the one above, and runs.
func TestREADMEChat(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	text, err := os.ReadFile("readme_test.go")
	require.NoError(t, err)
	_, code, found := strings.Cut(string(readme), "```go\nm := ")
	require.True(t, found, "the README shows no model that chats")
	code, _, _ = strings.Cut(code, "```")
	require.Contains(t, strings.ReplaceAll(string(text), "\n\t", "\n"), "m := "+code)

	t.Chdir(t.TempDir())
	m, err := tinyModel(256)
	require.NoError(t, err)
	defer m.Close()
	require.NoError(t, m.Save("plain.gguf", model.SaveOptions{}))
	g, err := ggml.OpenGGUF("plain.gguf")
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, g.Set("tokenizer.chat_template", source))
	require.NoError(t, g.WriteFile("model.gguf"))
	a, err := lora.New(m, lora.Options{Rank: 2})
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, os.MkdirAll("runs/desk", 0o700))
	require.NoError(t, a.Save("runs/desk/adapter.gguf", lora.SaveOptions{}))
	require.NotEmpty(t, answer())
}
