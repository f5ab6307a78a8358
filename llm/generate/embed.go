package generate

import (
	"context"
	"fmt"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Embed returns a vector for each text, in a session of the model: [infer.Session.Embed] of its tokens,
// including the tokens that the model puts before and after a text. A text that begins with the
// text of BOS gets no second one.
func Embed(ctx context.Context, m *model.Model, s *infer.Session, texts []string, o infer.EmbedOptions) ([][]float32, error) {
	if err := checkVocabulary(m); err != nil {
		return nil, err
	}
	if err := checkSession(m, s); err != nil {
		return nil, err
	}
	tokens, err := EncodeTexts(m, texts)
	if err != nil {
		return nil, err
	}
	return s.Embed(ctx, tokens, o)
}

// EncodeTexts returns the tokens of each text as [Embed] computes it.
func EncodeTexts(m *model.Model, texts []string) ([][]int32, error) {
	if err := checkVocabulary(m); err != nil {
		return nil, err
	}
	tokens := make([][]int32, len(texts))
	for i, text := range texts {
		tokens[i] = m.Tokenizer.Encode(text, tokenizer.EncodeOptions{AddSpecial: true, ParseSpecial: true})
		if bos := m.Tokenizer.BOS(); m.Tokenizer.AddsBOS() && len(tokens[i]) > 1 && tokens[i][1] == bos {
			tokens[i] = tokens[i][1:]
		}
		if len(tokens[i]) == 0 {
			return nil, &EmptyError{fmt.Sprint("text ", i+1)}
		}
	}
	return tokens, nil
}

// An EmptyError is an empty text for a model that has no token to begin a text with.
type EmptyError struct{ What string }

// Error names the text.
func (e *EmptyError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return e.What + " is empty, and the model has no token that begins a text"
}
