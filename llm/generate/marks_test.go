package generate_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/llmtest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/generate"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A call goes on behind text that spells the token that ends it, also if a stop text holds parts of both back.
func TestCallSpellsMarks(t *testing.T) {
	m := llmtest.ArchModel(t, "llama", ggml.F32)
	m.Tokenizer = letters(t, func(c *tokenizer.Config) {
		for i, text := range map[int]string{3: "<|channel|>", 4: "<|message|>", 5: "<|call|>", 30: "<|end|>"} {
			c.Tokens[i], c.Types[i] = text, tokenizer.Control
		}
		for i, char := range map[int]string{7: "=", 8: "{", 9: "}", 10: `"`, 11: "<", 12: "|", 13: ">", 39: ":"} {
			c.Tokens[i] = char
		}
	})
	g := need.Value(grammar.Parse(`root ::= <|channel|> "final" <|message|> "<|call|>" <|channel|> "commentary to=f" <|message|> "{\"a\":\"<|call|><|end|>x\"}"`))(t)
	o := generate.ChatOptions{Template: parseTemplate(t, chattest.CallTemplates["Harmony"]), Grammar: g}
	for _, stop := range [][]string{nil, {">?", "<|message|>?", "<|call|>?", "l|><|c?"}} {
		o.Stop = stop
		check := func(r generate.Reply) {
			t.Helper()
			require.Len(t, r.Calls, 1)
			r.Calls[0].ID = ""
			require.Equal(t, []chat.ToolCall{{Name: "f", Arguments: `{"a":"<|call|><|end|>x"}`}}, r.Calls)
			require.Equal(t, "<|call|>", r.Answer)
		}
		c, _ := newChat(t, m, o)
		check(need.Value(c.Reply(context.Background(), io.Discard, dialogue("a")))(t))
		tokens, reply := newScheduler(t, m, infer.SessionOptions{Context: 200}, generate.SchedulerOptions{}).Chat(context.Background(), dialogue("a"), sampler(t, sample.Options{}), o)
		need.Value(collect(tokens))(t)
		check(*reply)
	}
}
