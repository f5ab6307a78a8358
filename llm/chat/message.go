package chat

import (
	"fmt"
	"slices"

	"github.com/goggml/ggml/internal/jinja"
)

// Message is one message of a conversation. It keeps the order of its keys.
type Message struct {
	// Weight scales the message's loss: 1 by default, the value of the key "weight", or 0 for "train": false. Templates
	// do not see these keys.
	Weight float64

	fields *jinja.Dict
}

// NewMessage returns a message with a role and a content.
func NewMessage(role, content string) Message {
	m := Message{Weight: 1, fields: jinja.NewDict()}
	m.fields.Set("role", jinja.NewText(role))
	m.fields.Set("content", jinja.NewText(content))
	return m
}

// UnmarshalJSON reads a message. Null means that a key is absent, as in transformers.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := jinja.DecodeJSON(data)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	object, ok := v.(*jinja.Dict)
	if !ok {
		return fmt.Errorf("message: expected an object, got %s", jinja.TypeName(v))
	}
	*m = Message{Weight: 1, fields: jinja.NewDict()}
	for key, v := range object.Fields() {
		if v == nil {
			continue
		}
		switch key {
		case "weight":
			weight, ok := jinja.Float(v)
			if !ok || weight < 0 {
				return fmt.Errorf("message: weight is %s, expected a number that is not negative", jinja.Repr(v))
			}
			m.Weight = weight
		case "train":
			train, ok := v.(bool)
			if !ok {
				return fmt.Errorf("message: train is %s, expected true or false", jinja.Repr(v))
			}
			if !train {
				m.Weight = 0
			}
		default:
			m.fields.Set(key, v)
		}
	}
	return nil
}

// MarshalJSON writes the keys of the message in order, and its weight unless it is 1.
func (m Message) MarshalJSON() ([]byte, error) {
	fields := jinja.NewDict()
	if m.fields != nil {
		for key, v := range m.fields.Fields() {
			fields.Set(key, v)
		}
		if m.Weight != 1 {
			fields.Set("weight", m.Weight)
		}
	}
	data, err := jinja.EncodeJSON("message", fields, ",", ":")
	return []byte(data), templateError(err)
}

// Set sets a key of the message to a JSON value.
func (m *Message) Set(key string, data []byte) error {
	v, err := jinja.DecodeJSON(data)
	if err != nil {
		return fmt.Errorf("message: %s: %w", key, err)
	}
	m.set(key, v)
	return nil
}

// SetText sets a key of the message to a text, which must be UTF-8.
func (m *Message) SetText(key, text string) { m.set(key, jinja.NewText(text)) }

func (m *Message) set(key string, v jinja.Value) {
	if m.fields == nil {
		*m = Message{Weight: 1, fields: jinja.NewDict()}
	}
	m.fields.Set(key, v)
}

// Role returns the message's role, or "".
func (m Message) Role() string { return m.text("role") }

// Content returns the message's content if it is a string, or "".
func (m Message) Content() string { return m.text("content") }

// Reasoning returns the message's reasoning if it is a string, or "".
func (m Message) Reasoning() string { return m.text(m.reasoningKey()) }

func (m Message) text(key string) string {
	if m.fields == nil {
		return ""
	}
	v, _ := m.fields.Get(key)
	t, _ := v.(jinja.Text)
	return t.String()
}

// IsEmpty reports whether the message has neither a content other than white space, nor reasoning, nor tool calls.
func (m Message) IsEmpty() bool {
	if m.fields == nil {
		return true
	}
	content, _ := m.fields.Get("content")
	if parts, ok := content.(*jinja.Sequence); ok {
		content = jinja.NewList(textsOf(parts))
	}
	return !hasWords(content) && !hasWords(m.reasoning()) && len(m.Calls()) == 0
}

// textsOf returns the texts of a content's parts.
func textsOf(parts *jinja.Sequence) []jinja.Value {
	var texts []jinja.Value
	for _, item := range parts.Items {
		if part, ok := item.(*jinja.Dict); ok {
			text, _ := part.Get("text")
			texts = append(texts, text)
		}
	}
	return texts
}

// Calls returns the names of the tools that the message calls.
func (m Message) Calls() []string {
	if m.fields == nil {
		return nil
	}
	v, _ := m.fields.Get("tool_calls")
	calls, ok := v.(*jinja.Sequence)
	if !ok {
		return nil
	}
	names := make([]string, len(calls.Items))
	for i, item := range calls.Items {
		call, _ := item.(*jinja.Dict)
		if call != nil {
			v, _ := call.Get("function")
			if function, ok := v.(*jinja.Dict); ok {
				call = function
			}
			v, _ = call.Get("name")
			name, _ := v.(jinja.Text)
			names[i] = name.String()
		}
	}
	return names
}

// isAssistant reports whether the assistant wrote the message.
func (m Message) isAssistant() bool {
	role := m.Role()
	return role == "assistant" || role == "model"
}

// toolRoles are the roles of messages that contain a tool's result.
var toolRoles = []string{"tool", "function", "ipython"}

// refers reports whether a key identifies the speaker or the tool call that a message answers. Templates express both
// in their own mark-up or by the order of messages.
func (m Message) refers(key string) bool {
	return key == "role" || key == "tool_call_id" || key == "name" && slices.Contains(toolRoles, m.Role())
}

// reasoningKeys are the keys of a message's reasoning, the standard one first.
var reasoningKeys = []string{"reasoning_content", "thinking", "reasoning"}

// reasoningKey returns the key of the message's reasoning, or "".
func (m Message) reasoningKey() string {
	if m.fields != nil {
		for _, key := range reasoningKeys {
			if v, ok := m.fields.Get(key); ok && v != nil {
				return key
			}
		}
	}
	return ""
}

// reasoning returns the message's reasoning, or nil.
func (m Message) reasoning() jinja.Value {
	if key := m.reasoningKey(); key != "" {
		v, _ := m.fields.Get(key)
		return v
	}
	return nil
}
