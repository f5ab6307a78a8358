package chat_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/llm/chat"
)

const (
	chatML = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	llama = `{{ bos_token }}{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}`
)

var (
	greeting = &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "U1"), chat.NewMessage("assistant", "A1 é")}}
	clock    = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
)

func render(source string, c *chat.Conversation, o *chat.Options) (*chat.Rendered, error) {
	template, err := chat.Parse("test", source)
	if err != nil {
		return nil, err
	}
	return template.Render(c, o)
}

func conversation(t *testing.T, source string) *chat.Conversation {
	var c chat.Conversation
	require.NoError(t, json.Unmarshal([]byte(source), &c))
	return &c
}
