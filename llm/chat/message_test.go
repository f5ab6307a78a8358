package chat_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/chat"
)

func TestMessages(t *testing.T) {
	for _, c := range []struct{ source, message string }{
		{`{"messages": [1]}`, "message: expected an object, got int"},
		{`{"messages": [{"role": "user", "content": "\ud800"}]}`, "half of a surrogate pair"},
		{"{\"messages\": [{\"role\": \"user\", \"content\": \"\xff\"}]}", "not valid UTF-8"},
		{`{"messages": [{"role": "user", "weight": -1}]}`, "weight is -1, expected a number that is not negative"},
		{`{"messages": [{"role": "user", "train": 1}]}`, "train is 1, expected true or false"},
	} {
		var talk chat.Conversation
		require.ErrorContains(t, json.Unmarshal([]byte(c.source), &talk), c.message)
	}
	for _, c := range []struct{ source, message string }{
		{`{"messages": []}`, "test: the conversation has no message"},
		{`{"messages": [{"role": "user"}], "tools": 1}`, "test: tools: expected a list, got int"},
		{`{"messages": [{"role": "user"}], "tools": [1]}`, "test: tools: item 0: expected an object, got int"},
		{`{"messages": [{"role": "user"}], "documents": {}}`, "test: documents: expected a list, got dict"},
	} {
		_, err := render(chatML, conversation(t, c.source), nil)
		require.EqualError(t, err, c.message)
	}
	_, err := render(chatML, greeting, &chat.Options{AddGenerationPrompt: true, ContinueFinalMessage: true})
	require.ErrorContains(t, err, "set only one of them")
}
