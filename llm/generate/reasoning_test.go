package generate_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/llm/generate"
)

// A reply is split at the template's reasoning mark-up: the mark-up that it renders around reasoning, or
// that it cuts out of answers. The reasoning may begin in the prompt.
func TestReasoningOfReply(t *testing.T) {
	m := randomModel(t, 64)
	const turn = "<|im_start|>{{ m.role }}\n"
	for name, c := range map[string]struct{ template, prompt, content, reasoning, answer string }{
		"of a template that renders it": {
			`{% for m in messages %}` + turn + "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}{% endfor %}",
			"Q", "<think>\nIt scatters.\n</think>\n\nBecause.", "It scatters.", "Because.",
		},
		"of other marks": {
			`{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}[THINK]{{ m.reasoning_content }}[/THINK]{% endif %}{{ m.content }}{% endfor %}`,
			"Q", "[THINK]It scatters.[/THINK]Because.", "It scatters.", "Because.",
		},
		"that begins in the prompt": {
			`{% for m in messages %}` + turn + `{{ m.content.split('</think>')[-1] }}{% endfor %}`,
			"Q<think>\n", "It scatters.\n</think>\n\nBecause.", "It scatters.", "Because.",
		},
		"that is cut": {
			`{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}`,
			"Q", "<think>\nIt sca", "It sca", "",
		},
		"that is not there": {
			`{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}`,
			"Q", " Because <think> is a word.", "", " Because <think> is a word.",
		},
		"of a template that knows none": {chatML, "Q", "<think>a</think>b", "", "<think>a</think>b"},
	} {
		chat, _ := newChat(t, m, generate.ChatOptions{Template: parseTemplate(t, c.template)})
		reasoning, answer := chat.SplitReply(c.prompt, c.content)
		require.Equal(t, []string{c.reasoning, c.answer}, []string{reasoning, answer}, name)
	}
}

// A reply that ends within its reasoning has no answer.
func TestReplyIsReasoning(t *testing.T) {
	m := randomModel(t, 128)
	template := `{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}{% if add_generation_prompt %}<think>{% endif %}`
	c, _ := newChat(t, m, generate.ChatOptions{Template: parseTemplate(t, template), Limit: testutil.Ptr(6)})
	reply := need.Value(c.Reply(context.Background(), io.Discard, dialogue("hello")))(t)
	require.NotEmpty(t, reply.Reasoning)
	require.Empty(t, reply.Answer)
	require.Contains(t, reply.Content, reply.Reasoning)
	c, _ = newChat(t, m, generate.ChatOptions{Template: parseTemplate(t, chatML), Limit: testutil.Ptr(6)})
	reply = need.Value(c.Reply(context.Background(), io.Discard, dialogue("hello")))(t)
	require.Empty(t, reply.Reasoning)
	require.Equal(t, reply.Content, reply.Answer)
}
