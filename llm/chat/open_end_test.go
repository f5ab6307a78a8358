package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// OpenEnd is the end of the last answer if the template omits it.
func TestOpenEnd(t *testing.T) {
	const (
		glm = `{% for m in messages %}{% if m.role == 'tool' %}<|observation|>{% else %}<|{{ m.role }}|>{% endif %}
{{ m.content }}{% for c in m.tool_calls %}<call>{{ c.function.name }}</call>{% endfor %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
		butLast  = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if not loop.last %}{{ eos_token }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`
		tags     = `{% for m in messages %}<|{{ m.role }}|>{% generation %}{{ m.content }}{% endgeneration %}{% if not loop.last %}{{ eos_token }}{% endif %}{% endfor %}`
		question = `{"role": "user", "content": "U1"}`
		answer   = question + `, {"role": "assistant", "content": "A1"}`
	)
	ends := []string{"<|observation|>", "<|user|>"}
	for _, c := range []struct {
		name, template, messages string
		ends                     []string
		want                     string
	}{
		{"the next header", glm, answer, ends, "<|user|>"},
		{"the header of a tool", glm, question + `, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f"}}]}`, ends, "<|observation|>"},
		{"a header that ends nothing", glm, answer, nil, ""},
		{"the end of all but the last", butLast, answer, nil, "</s>"},
		{"tags say what is trained", tags, answer, nil, ""},
		{"an end", chatML, answer, []string{"<|im_end|>"}, ""},
		{"an end that no token is", chatML, answer, nil, ""},
		{"a question", butLast, question, nil, ""},
		{"an answer that is not trained", butLast, question + `, {"role": "assistant", "content": "A1", "train": false}`, nil, ""},
		{"no words", butLast, question + `, {"role": "assistant", "content": ""}`, nil, ""},
	} {
		got, err := render(c.template, conversation(t, `{"messages": [`+c.messages+`]}`), &chat.Options{EndOfTurn: c.ends, Variables: map[string]any{"eos_token": "</s>"}})
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, got.OpenEnd(), c.name)
	}
	got := need.Value(render(butLast, conversation(t, `{"messages": [`+answer+`]}`), &chat.Options{AddGenerationPrompt: true, Variables: map[string]any{"eos_token": "</s>"}}))(t)
	require.Empty(t, got.OpenEnd())
	require.Empty(t, (&chat.Rendered{}).OpenEnd())
}
