//go:build interop

package interop

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// TestInteropRWKVTokens holds tokens of RWKV's vocabularies against stock's: all bytes, and pieces that may begin or end within a
// character.
func TestInteropRWKVTokens(t *testing.T) {
	for _, seed := range seeds() {
		t.Run("seed "+seed, func(t *testing.T) {
			rng := seeded(t, seed)
			compareTexts(t, worldVocabulary(t, rng, generatedTexts(rng, 1500)), append(generatedTexts(rng, 500), "", "<s>", "\\x41\\n"))
		})
	}
}

// worldVocabulary has tokens as converters write them, escaped as Python writes bytes.
func worldVocabulary(t *testing.T, rng *rand.Rand, texts []string) tokenizer.KeyValues {
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelRWKV, ""))(t)
	known := map[string]bool{}
	add := func(raw string) {
		if token := escaped(raw); !known[token] && raw != "" {
			known[token] = true
			c.Tokens, c.Types = append(c.Tokens, token), append(c.Types, tokenizer.Normal)
		}
	}
	add("<s>")
	c.Types[0] = tokenizer.Control
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	for _, text := range texts {
		text = strings.ReplaceAll(text, "\x00", "")
		for range 8 {
			from := rng.IntN(len(text) + 1)
			add(text[from:min(len(text), from+2+rng.IntN(9))])
		}
	}
	for i := range 3 {
		c.Tokens, c.Types = append(c.Tokens, fmt.Sprintf("[PAD%d]", i)), append(c.Types, tokenizer.Unused)
	}
	c.BOS, c.EOS, c.EOT = 0, 0, 100
	return need.Value(tokenizer.New(c))(t).KeyValues()
}

// escaped writes bytes as the literal of Python's repr.
func escaped(raw string) string {
	var b strings.Builder
	for i := range len(raw) {
		switch c := raw[i]; {
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\\' || c == '\'':
			b.WriteString(`\` + string(rune(c)))
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
