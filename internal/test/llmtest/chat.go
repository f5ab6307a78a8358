package llmtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/model"
)

var markupToken = regexp.MustCompile(`<\|[^<>|\n]+\|>|<｜[^<>\n]+｜>|\[/?[A-Z_]+\]|<(?:start|end)_of_turn>|\[\|[a-z]+\|\]|</?think>`)

// MarkupTokens returns the special tokens that a chat template writes, after others.
func MarkupTokens(template string, others ...string) []string {
	tokens := slices.Clone(others)
	for _, token := range markupToken.FindAllString(template, -1) {
		if !slices.Contains(tokens, token) {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// SaveChat writes a model with a chat template to a folder of the test, and returns its path.
func SaveChat(t testing.TB, m *model.Model, template string, o model.SaveOptions) string {
	t.Helper()
	folder := t.TempDir()
	plain, path := filepath.Join(folder, "plain.gguf"), filepath.Join(folder, "chat.gguf")
	require.NoError(t, m.Save(plain, o))
	g := need.Value(ggml.OpenGGUF(plain))(t)
	defer g.Close()
	require.NoError(t, g.Set("tokenizer.chat_template", template))
	require.NoError(t, g.WriteFile(path))
	return path
}
