package chat_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// Every byte keeps its message and its source, whatever the template applies to it.
func TestSpans(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "name": "Ann", "content": "größer"}, {"role": "assistant", "content": [{"type": "text", "text": "A"}],
		"reasoning_content": "R", "tool_calls": [{"function": {"name": "f\n"}}], "mood": "good"}], "tools": [{"name": "t"}], "documents": [{"text": "d"}]}`)
	type chunk struct {
		text    string
		message int
		source  chat.Source
	}
	for _, c := range []struct {
		expression string
		want       []chunk
	}{
		{"messages[0].content", []chunk{{"größer", 0, chat.Content}}},
		{"messages[0].role", []chunk{{"user", 0, chat.Role}}},
		{"messages[0].name", []chunk{{"Ann", 0, chat.Role}}},
		{"messages[1].mood", []chunk{{"good", 1, chat.Field}}},
		{"messages[1].content[0].text ~ messages[1].reasoning_content", []chunk{{"A", 1, chat.Content}, {"R", 1, chat.Reasoning}}},
		{"messages[1].thinking", []chunk{{"R", 1, chat.Reasoning}}},
		{"tools[0].name ~ documents[0].text ~ bos_token", []chunk{{"t", -1, chat.Tools}, {"d", -1, chat.Documents}, {"<s>", -1, chat.Variable}}},
		{"('<' + messages[0].content + '>')[1:4]", []chunk{{"grö", 0, chat.Content}}},
		{"('<' ~ messages[0].content ~ '>')[::-1]", []chunk{{">", -1, chat.Markup}, {"reßörg", 0, chat.Content}, {"<", -1, chat.Markup}}},
		{"('  ' + messages[0].content + '  ') | trim", []chunk{{"größer", 0, chat.Content}}},
		{"messages[0].content.upper()", []chunk{{"GRÖSSER", 0, chat.Content}}},
		{"messages[0].content | replace('ö', '-')", []chunk{{"gr", 0, chat.Content}, {"-", -1, chat.Markup}, {"ßer", 0, chat.Content}}},
		{"messages[0].content.split('ß') | join('|')", []chunk{{"grö", 0, chat.Content}, {"|", -1, chat.Markup}, {"er", 0, chat.Content}}},
		{"messages[1].tool_calls[0].function.name | tojson", []chunk{{`"`, -1, chat.Markup}, {`f\n`, 1, chat.ToolCalls}, {`"`, -1, chat.Markup}}},
		{"[messages[0].role]", []chunk{{"['", -1, chat.Markup}, {"user", 0, chat.Role}, {"']", -1, chat.Markup}}},
		{"'%s:%5s' % (messages[0].role, messages[1].mood)", []chunk{{"user", 0, chat.Role}, {": ", -1, chat.Markup}, {"good", 1, chat.Field}}},
		{"'{}!'.format(messages[0].role)", []chunk{{"user", 0, chat.Role}, {"!", -1, chat.Markup}}},
		{"messages[0].role | indent(2, true)", []chunk{{"  ", -1, chat.Markup}, {"user", 0, chat.Role}}},
		{"messages[0].content | title | lower | capitalize", []chunk{{"Größer", 0, chat.Content}}},
		{"('a ' + messages[0].content) | truncate(5, true, '')", []chunk{{"a ", -1, chat.Markup}, {"größer", 0, chat.Content}}},
		{"messages[0].content | list | last", []chunk{{"r", 0, chat.Content}}},
		{"messages[0].content | escape", []chunk{{"größer", 0, chat.Content}}},
	} {
		got, err := render("{{ "+c.expression+" }}", talk, &chat.Options{Variables: map[string]any{"bos_token": "<s>"}})
		require.NoError(t, err, c.expression)
		var chunks []chunk
		end := 0
		for _, s := range got.Spans {
			require.Equal(t, end, s.From, "no gap")
			end = s.To
			chunks = append(chunks, chunk{got.Text[s.From:s.To], s.Message, s.Source})
		}
		require.Equal(t, len(got.Text), end)
		require.Equal(t, c.want, chunks, c.expression)
	}
}

func TestIsMarkup(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "content": "<s><|im_end|>"}]}`)
	got := need.Value(render("{{ bos_token }}"+chatML, talk, &chat.Options{Variables: map[string]any{"bos_token": "<s>"}}))(t)
	require.Equal(t, "<s><|im_start|>user\n<s><|im_end|><|im_end|>\n", got.Text)
	var special []int // offsets of intended special tokens
	for _, token := range []string{"<s>", "<|im_start|>", "<|im_end|>"} {
		for at := 0; at+len(token) <= len(got.Text); at++ {
			if strings.HasPrefix(got.Text[at:], token) && got.IsMarkup(at, at+len(token)) {
				special = append(special, at)
			}
		}
	}
	require.Equal(t, []int{0, 3, 33}, special)
	require.False(t, got.IsMarkup(3, 21), "a part of it is content")
	require.Equal(t, []chat.Chunk{{0, 20, true}, {20, 33, false}, {33, 44, true}}, got.Chunks())
}

// Templates turn roles into tokens; a role that contains a token is plain text.
func TestIsMarkupOfRoles(t *testing.T) {
	talk := conversation(t, `{"messages": [{"role": "user", "name": "<|user|>", "content": "U"}]}`)
	got := need.Value(render("{% for m in messages %}<|{{ m.role }}|>{{ m.name }}{{ m.content }}{% endfor %}", talk, nil))(t)
	require.Equal(t, "<|user|><|user|>U", got.Text)
	require.True(t, got.IsMarkup(0, 8))
	require.False(t, got.IsMarkup(8, 16))
	require.Equal(t, []chat.Chunk{{0, 8, true}, {8, 17, false}}, got.Chunks())
}
