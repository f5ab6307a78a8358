package chat

import (
	"encoding/json"
	"fmt"

	"github.com/goggml/ggml/internal/jinja"
)

// Conversation is the input of a template. Its JSON form is the usual one of data sets:
//
//	{"messages": [{"role": "user", "content": "…"}, …], "tools": […], "documents": […]}
type Conversation struct {
	Messages  []Message       `json:"messages"`
	Tools     json.RawMessage `json:"tools,omitempty"`     // list of schemas
	Documents json.RawMessage `json:"documents,omitempty"` // list of objects
}

// variables returns the values of the template's variables, and the units that come from the conversation.
func (c *Conversation) variables(o *Options) (names map[string]jinja.Value, given *units, err error) {
	given = &units{}
	tools, err := given.listOf(c.Tools, "tools", Tools)
	if err != nil {
		return nil, nil, err
	}
	documents, err := given.listOf(c.Documents, "documents", Documents)
	if err != nil {
		return nil, nil, err
	}
	names = map[string]jinja.Value{}
	for name, v := range o.Variables {
		data, err := encode(v)
		if err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", name, err)
		}
		decoded, err := jinja.DecodeJSON(data)
		if err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", name, err)
		}
		names[name] = jinja.Retag(decoded, given.frame(-1, Variable))
	}
	messages := make([]jinja.Value, len(c.Messages))
	for i, m := range c.Messages {
		messages[i] = given.message(i, m)
	}
	names["messages"], names["tools"], names["documents"] = jinja.NewList(messages), tools, documents
	names["add_generation_prompt"] = o.AddGenerationPrompt
	return names, given, nil
}

func encode(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(v)
}
