package data

import (
	"strings"

	"github.com/goggml/ggml/llm/tokenizer"
)

// Marks surround the trained text in FormatSample: terminal colours or brackets.
type Marks struct{ Begin, End string }

// FormatSample formats a sample for display, with special tokens by name and marks around each run of
// trained tokens.
func FormatSample(t *tokenizer.Tokenizer, s Sample, marks Marks) string {
	var b strings.Builder
	open := false
	for i, id := range s.Tokens {
		trained := i > 0 && (s.LossWeights == nil || i <= len(s.LossWeights) && s.LossWeights[i-1] > 0)
		switch {
		case trained && !open:
			b.WriteString(marks.Begin)
		case open && !trained:
			b.WriteString(marks.End)
		}
		open = trained
		b.Write(t.Piece(id))
	}
	if open {
		b.WriteString(marks.End)
	}
	return strings.ToValidUTF8(b.String(), "\ufffd") // a sample may be cut inside a character
}
