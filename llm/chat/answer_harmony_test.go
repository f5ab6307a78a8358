package chat_test

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml/internal/test/chattest"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// Text of ordinary tokens that spells marks of Harmony is text in reasoning, answer and arguments, however it is cut.
func TestHarmonyTextSpellsMarks(t *testing.T) {
	form := need.Value(chat.Parse("test", chattest.CallTemplates["Harmony"]))(t).AnswerForm(nil)
	piece := rapid.SampledFrom([]string{"<|call|>", "<|end|>", "<|return|>", "<|start|>", "<|channel|>", "<|message|>", "<", "<|", "end|>", "é", "x", " "})
	rapid.Check(t, func(r *rapid.T) {
		words := func(name string) (text string) {
			for _, p := range rapid.SliceOfN(piece, 0, 6).Draw(r, name) {
				text += p
			}
			return text
		}
		want := chat.Answer{Reasoning: words("reasoning"), Text: words("text")}
		want.Calls = []chat.ToolCall{{Name: "get_weather", Arguments: `{"city": "` + words("city") + `"}`}}
		reader := form.NewReader("<|start|>assistant", nil)
		var before chat.Answer
		write := func(text string, write func(string)) {
			for text != "" {
				n := rapid.IntRange(1, len(text)).Draw(r, "cut")
				for n < len(text) && !utf8.RuneStart(text[n]) {
					n++
				}
				write(text[:n])
				requireGrows(t, before, reader.Answer())
				before, text = copied(reader.Answer()), text[n:]
			}
		}
		for _, part := range []struct{ control, text string }{
			{"<|channel|>", "analysis"}, {"<|message|>", want.Reasoning}, {"<|end|>", ""},
			{"<|start|>", "assistant"}, {"<|channel|>", "final"}, {"<|message|>", want.Text}, {"<|end|>", ""},
			{"<|start|>", "assistant"}, {"<|channel|>", "commentary to=functions.get_weather "}, {"<|constrain|>", "json"}, {"<|message|>", want.Calls[0].Arguments}, {"<|call|>", ""},
		} {
			write(part.control, reader.Write)
			write(part.text, reader.WriteText)
		}
		reader.End()
		got := copied(reader.Answer())
		require.Len(r, got.Calls, 1)
		got.Calls[0].ID = ""
		require.Equal(r, want, got)
	})
}
