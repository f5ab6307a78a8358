package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/llm/chat"
)

// A conversation marshals to what was read, on one line.
func TestConversationJSON(t *testing.T) {
	for _, line := range []string{
		`{"messages":[{"role":"user","content":"a\n\"b\" é <|x|> \u2028"}]}`,
		`{"messages":[{"role":"assistant","content":"","tool_calls":[{"z":1,"a":[2.5,true,"x"]}],"weight":0.5}],"tools":[{"name":"f"}]}`,
		`{"messages":[{"content":[{"type":"text","text":"x"}],"role":"user","weight":0.0}]}`,
	} {
		var talk chat.Conversation
		require.NoError(t, json.Unmarshal([]byte(line), &talk))
		written := need.Value(json.Marshal(talk))(t)
		require.JSONEq(t, line, string(written))
		var again chat.Conversation
		require.NoError(t, json.Unmarshal(written, &again))
		require.Equal(t, talk, again, "the keys keep their order")
	}
	written := need.Value(json.Marshal(chat.Message{}))(t)
	require.Equal(t, `{}`, string(written))
}
