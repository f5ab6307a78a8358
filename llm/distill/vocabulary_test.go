package distill_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/distill"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Vocabularies are compared by the text of tokens; unused tokens at the end are padding.
func TestCheckVocabulary(t *testing.T) {
	made := func(change func(c *tokenizer.Config)) *tokenizer.Tokenizer {
		c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelSPM, ""))(t)
		c.Tokens = []string{"<unk>", "<s>", "</s>", "▁a", "b"}
		c.Types = []tokenizer.TokenType{tokenizer.Unknown, tokenizer.Control, tokenizer.Control, tokenizer.Normal, tokenizer.Normal}
		c.Scores = make([]float32, 5)
		change(&c)
		return need.Value(tokenizer.New(c))(t)
	}
	add := func(text string, kind tokenizer.TokenType) func(c *tokenizer.Config) {
		return func(c *tokenizer.Config) {
			c.Tokens, c.Types, c.Scores = append(c.Tokens, text), append(c.Types, kind), append(c.Scores, 0)
		}
	}
	same := made(func(*tokenizer.Config) {})
	require.NoError(t, distill.CheckVocabulary(same, made(func(*tokenizer.Config) {})))
	require.NoError(t, distill.CheckVocabulary(same, made(add("[PAD5]", tokenizer.Unused))))
	require.NoError(t, distill.CheckVocabulary(made(add("[PAD5]", tokenizer.Unused)), same))
	require.NoError(t, distill.CheckVocabulary(made(add("[PAD5]", tokenizer.Unused)), made(add("<new>", tokenizer.Control))))
	require.EqualError(t, distill.CheckVocabulary(same, made(func(c *tokenizer.Config) { c.Tokens[4] = "c" })),
		`the teacher has another vocabulary: 1 token of 5 differ, the first is token 4, "b" of the student and "c" of the teacher; take a teacher with the student's vocabulary`)
	require.EqualError(t, distill.CheckVocabulary(same, made(add("c", tokenizer.Normal))),
		`the teacher has another vocabulary: 6 tokens, and the student 5; token 5 of the teacher, "c", is missing in the other; take a teacher with the student's vocabulary`)
	require.EqualError(t, distill.CheckVocabulary(nil, same), "a model has no vocabulary in its file, so the tokens of student and teacher cannot be compared")
}
