package generate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Embed adds the tokens that the model puts before a text, as in a prompt.
func TestEmbed(t *testing.T) {
	m := randomModel(t, 64)
	m.Tokenizer = letters(t, nil)
	require.True(t, m.Tokenizer.AddsBOS())
	s := newSession(t, m, 2)
	ctx, o := context.Background(), infer.EmbedOptions{Pooling: infer.PoolMean}
	texts := []string{"in a", "<s>b", ""}
	got := need.Value(generate.Embed(ctx, m, s, texts, o))(t)
	var tokens [][]int32
	for _, text := range []string{"in a", "b", ""} {
		tokens = append(tokens, m.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true}))
	}
	require.Equal(t, []int32{m.Tokenizer.BOS()}, tokens[2])
	want := need.Value(s.Embed(ctx, tokens, o))(t)
	require.Equal(t, want, got)

	bytes := randomModel(t, 64)
	_, err := generate.Embed(ctx, bytes, newSession(t, bytes, 1), []string{"a", ""}, o)
	require.EqualError(t, err, "text 2 is empty, and the model has no token that begins a text")
	wordless := need.Value(model.New(m.Config(), nil, 1))(t)
	defer wordless.Close()
	_, err = generate.Embed(ctx, wordless, s, texts, o)
	require.EqualError(t, err, "a model made in memory has no vocabulary, so it cannot read text")
	_, err = generate.Embed(ctx, nil, s, texts, o)
	require.EqualError(t, err, "the model is nil")
}
