package chat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
)

// Unrendered finds what a template omits, whatever else of the message it writes.
func TestUnrendered(t *testing.T) {
	long := strings.Repeat("ab ", 20)
	for template, want := range map[string]int{"{{ messages[0].content[:-8] }}": 0, "{{ messages[0].content[30:] }}": 0, "{{ messages[0].content[40:] }}": 1, "{{ messages[0].content.split('b')[0] }}": 1} {
		r := need.Value(render(template, conversation(t, `{"messages": [{"role": "user", "content": "`+long+`", "name": ""}]}`), nil))(t)
		got := r.Unrendered()
		require.Len(t, got, want, template)
		if want > 0 {
			require.True(t, got[0].Cut)
		}
	}
	same := conversation(t, `{"messages": [{"role": "assistant", "content": "A", "reasoning": "R", "reasoning_content": "R"}]}`)
	r := need.Value(render("{{ messages[0].reasoning_content }}{{ messages[0].content }}", same, nil))(t)
	require.Empty(t, r.Unrendered(), "one reasoning under two names")

	const all = `{"messages": [{"role": "system", "content": "S"}, {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "U"}, {"type": "text", "text": "V"}]},
		{"role": "assistant", "content": "A", "reasoning": "R", "id": 7, "flag": true, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": "y"}}}, {"function": {"name": "g", "arguments": {}}}]},
		{"role": "tool", "tool_call_id": "1", "name": "f", "content": {"t": 1}}, {"role": "assistant", "content": " \n"}],
		"tools": [{"name": "f"}, {"name": "g"}], "documents": [{"text": "D"}]}`
	for _, c := range []struct {
		name, template string
		want           []string
	}{
		{"everything", `{{ messages }}{{ tools | tojson }}{{ documents }}`, nil},
		{"roles alone", `{% for m in messages %}{{ m.role }}{% endfor %}`, []string{
			"-1 tools[0]", "-1 tools[1]", "-1 documents[0]", "0 content", "1 content[0].text", "1 content[1].text", "2 reasoning", "2 content",
			"2 tool_calls[0].function.name", "2 tool_calls[0].function.arguments", "2 tool_calls[1].function.name", "3 content", "1 name", "2 id", "2 flag"}},
		{"the first of each list", `{{ tools[0].name }}{{ documents[0] }}{% for m in messages %}{{ m.name }}{{ m.id }}{{ m.content[0].text if m.content is iterable and m.content is not string and m.content is not mapping else m.content }}` +
			`{% if m.tool_calls %}{{ m.tool_calls[0].function.name }}{{ m.thinking }}{% endif %}{% endfor %}`, []string{
			"-1 tools[1]", "1 content[1].text", "2 tool_calls[0].function.arguments", "2 tool_calls[1].function.name", "2 flag"}},
		{"a key that changes the mark-up", `{{ tools }}{{ documents }}{% for m in messages %}{{ 'on' if m.flag }}{{ m.content }}{{ m.tool_calls }}{{ m.reasoning_content }}{{ m.name }}{% endfor %}`, []string{"2 id"}},
		{"words that are cut out and changed", `{{ tools }}{{ documents }}{% for m in messages %}{{ (m.content | string | upper)[:9].strip() }}{{ m.tool_calls }}{{ m.reasoning }}{{ m.name }}{{ m.id }}{{ m.flag }}{% endfor %}`,
			[]string{"1 content[0].text", "1 content[1].text"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := need.Value(render(c.template, conversation(t, all), nil))(t)
			var got []string
			for _, g := range r.Unrendered() {
				got = append(got, fmt.Sprint(g.Message, " ", g.Path))
			}
			require.Equal(t, c.want, got, r.Text)
		})
	}
}
