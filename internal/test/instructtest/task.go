// Package instructtest provides an instruction task that small models learn in seconds, a base model trained on other
// text, and adapters for it, to test what a model says after fine-tuning.
package instructtest

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/tokenizer"
)

// Template is the chat template of the base, in the form of Phi-3's.
const Template = `{% for m in messages %}<|{{ m['role'] }}|>
{{ m['content'] }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}`

// The task: replace each letter of a word by the next one in the alphabet.
const (
	letters    = "abcdefghijklmnop"
	others     = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:;!?()-" // in the base's training text
	wordLength = 4
	lineLength = 3*wordLength + 1 // of the base's training text
)

// Answer returns the right answer to a word.
func Answer(word string) string {
	return strings.Map(func(r rune) rune {
		next := (strings.IndexRune(letters, r) + 1) % len(letters)
		return rune(letters[next])
	}, word)
}

// Words returns distinct random words.
func Words(seed uint64, n int) []string {
	rng := rand.New(rand.NewPCG(seed, 0))
	var list []string
	for seen := map[string]bool{}; len(list) < n; {
		word := randomText(rng, letters)
		if !seen[word] {
			seen[word] = true
			list = append(list, word)
		}
	}
	return list
}

func randomText(rng *rand.Rand, characters string) string {
	b := make([]byte, wordLength)
	for i := range b {
		b[i] = characters[rng.IntN(len(characters))]
	}
	return string(b)
}

// Records returns conversations about words as JSON lines, of one or two turns each.
func Records(t testing.TB, words []string) string {
	t.Helper()
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var b strings.Builder
	for turns := 1; len(words) > 0; turns = 3 - turns {
		turn := words[:min(turns, len(words))]
		words = words[len(turn):]
		var messages []message
		for _, word := range turn {
			messages = append(messages, message{"user", word}, message{"assistant", Answer(word)})
		}
		line := need.Value(json.Marshal(map[string]any{"messages": messages}))(t)
		b.Write(append(line, '\n'))
	}
	return b.String()
}

// baseText returns the base's training text: words said twice, without any answer of the task.
func baseText(lines int) string {
	rng := rand.New(rand.NewPCG(7, 7))
	var b strings.Builder
	for range lines {
		word := randomText(rng, letters)
		b.WriteString(word + randomText(rng, others) + word + "\n")
	}
	return b.String()
}

// Vocabulary has a token per ASCII character, and the template's special tokens.
func Vocabulary(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	c := need.Value(tokenizer.DefaultConfig(tokenizer.ModelBPE, "gpt-2"))(t)
	for b := '!'; b <= '~'; b++ {
		c.Tokens = append(c.Tokens, string(b))
	}
	c.Tokens = append(c.Tokens, "Ġ", "Ċ")
	c.Types = slices.Repeat([]tokenizer.TokenType{tokenizer.Normal}, len(c.Tokens))
	for _, special := range []string{"<|endoftext|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"} {
		c.Tokens, c.Types = append(c.Tokens, special), append(c.Types, tokenizer.Control)
	}
	c.Tokens, c.Types = append(c.Tokens, "Ġt"), append(c.Types, tokenizer.Normal)
	c.Merges = []string{"Ġ t"} // llama.cpp requires at least one
	id := func(token string) tokenizer.ID { return tokenizer.ID(slices.Index(c.Tokens, token)) }
	c.BOS, c.EOS, c.AddBOS = id("<|endoftext|>"), id("<|end|>"), false
	return need.Value(tokenizer.New(c))(t)
}
