package chat_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// TestForms lists templates that accept one form or both, and what they write for a conversation in the other form.
func TestForms(t *testing.T) {
	const (
		contents   = `{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}`
		parts      = `{% for m in messages %}<{{ m.role }}>{% for p in m.content if p.type == 'text' %}{{ p.text }}{% endfor %}{% endfor %}`
		both       = `{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}{% endfor %}`
		calls      = `{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}`
		endOfCalls = `{% endfor %}{% endfor %}`
		textParts  = `{"messages": [{"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}]}`
		asText     = `{"messages": [{"role": "user", "content": "A"}]}`
		textCall   = `{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": "{\"z\":1}"}}]}]}`
		objectCall = `{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"z":1}}}]}]}`
		nullCall   = `{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}]}`
		emptyCall  = `{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}]}`
	)
	for _, c := range []struct{ template, conversation, plain, converted string }{
		{contents, textParts, `<user>[{'type': 'text', 'text': 'A'}, {'type': 'text', 'text': 'B'}]`, "<user>A\nB"},
		{contents, asText, "<user>A", "<user>A"},
		{parts, textParts, "<user>AB", "<user>AB"},
		{parts, asText, "<user>", "<user>A"},
		{both, textParts, "<user>AB", "<user>AB"},
		{both, asText, "<user>A", "<user>A"},
		{calls + "{{ c.function.arguments | tojson }}" + endOfCalls, textCall, `f"{\"z\":1}"`, `f{"z": 1}`},
		{calls + "{{ c.function.arguments | tojson }}" + endOfCalls, objectCall, `f{"z": 1}`, `f{"z": 1}`},
		{calls + "{{ c.function.arguments | tojson }}" + endOfCalls, emptyCall, `f""`, `f{}`},
		{calls + "{% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}" + endOfCalls, textCall, "", "fz=1"},
		{calls + "{{ c.function.arguments }}" + endOfCalls, textCall, `f{"z":1}`, `f{"z":1}`},
		{calls + "{{ c.function.arguments }}" + endOfCalls, objectCall, `f{'z': 1}`, `f{"z": 1}`},
		{calls + "{{ ':' + c.function.arguments }}" + endOfCalls, objectCall, "", `f:{"z": 1}`},
		{calls + "{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}" + endOfCalls, textCall, `f{"z":1}`, `f{"z":1}`},
		{calls + endOfCalls, textCall, "f", "f"},
		{`{% for m in messages %}<{{ m.role + '>' + m.content }}{% endfor %}`, nullCall, "", "<user><assistant>"},
		{`{% for m in messages %}<{{ m.role }}>{% for p in m.content if p.type == 'text' %}[{{ p.text }}]{% endfor %}{% endfor %}`, nullCall, "<user><assistant>", "<user>[]<assistant>[]"},
	} {
		template := need.Value(chat.Parse("test", c.template))(t)
		talk := conversation(t, c.conversation)
		got, err := template.Render(talk, nil)
		if c.plain == "" {
			require.Error(t, err, c.template)
		} else {
			require.NoError(t, err)
			require.Equal(t, c.plain, got.Text, c.template)
		}
		forms := template.Forms(nil)
		got = need.Value(template.Render(forms.Convert(talk), nil))(t)
		require.Equal(t, c.converted, got.Text, c.template)
	}
}

// Convert keeps the sources of words and the weights of messages.
func TestConvertKeepsWeights(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "content": "A", "weight": 0.5}], "tools": [{"name": "t"}], "documents": [{"title": "D"}]}`)
	got := chat.Forms{PartContent: true}.Convert(talk)
	require.InDelta(t, 0.5, got.Messages[0].Weight, 0)
	require.Equal(t, talk.Tools, got.Tools)
	require.Equal(t, talk.Documents, got.Documents)
	require.Equal(t, "A", talk.Messages[0].Content(), "the conversation itself stays as it is")
	require.Empty(t, got.Messages[0].Content())
}
