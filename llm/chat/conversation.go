package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Conversation is what a template renders. Its JSON form is the one of data sets:
//
//	{"messages": [{"role": "user", "content": "…"}, …], "tools": […], "documents": […]}
type Conversation struct {
	Messages  []Message       `json:"messages"`
	Tools     json.RawMessage `json:"tools,omitempty"`     // a list of schemas
	Documents json.RawMessage `json:"documents,omitempty"` // a list of objects
}

// Message is one message. Its keys keep the order in which they were given.
type Message struct {
	// Weight is the weight of the message in training: 1 unless the keys "weight" or "train" say otherwise, 0 for
	// "train": false. Templates do not see these keys.
	Weight float64

	fields *mapping
}

// NewMessage is a message with a role and a content.
func NewMessage(role, content string) Message {
	m := Message{Weight: 1, fields: newMapping()}
	m.fields.setString("role", plain(role))
	m.fields.setString("content", plain(content))
	return m
}

// UnmarshalJSON reads a message. Null stands for a key that is not there, as in transformers.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	object, ok := v.(*mapping)
	if !ok {
		return fmt.Errorf("message: an object is expected, got %s", typeName(v))
	}
	*m = Message{Weight: 1, fields: newMapping()}
	for _, k := range object.keys {
		v, _ := object.get(k)
		if v == nil {
			continue
		}
		switch k.(text).s {
		case "weight":
			if !isNumber(v) || toFloat(v) < 0 {
				return fmt.Errorf("message: weight is %s, expected a number that is not negative", repr(v).s)
			}
			m.Weight = toFloat(v)
		case "train":
			train, ok := v.(bool)
			if !ok {
				return fmt.Errorf("message: train is %s, expected true or false", repr(v).s)
			}
			if !train {
				m.Weight = 0
			}
		default:
			m.fields.set(k, v)
		}
	}
	return nil
}

// MarshalJSON writes the keys of the message in their order, and its weight unless that is 1.
func (m Message) MarshalJSON() (data []byte, err error) {
	defer catch(&err)
	fields := newMapping()
	if m.fields != nil {
		for _, k := range m.fields.keys {
			v, _ := m.fields.get(k)
			fields.set(k, v)
		}
		if m.Weight != 1 {
			fields.setString("weight", m.Weight)
		}
	}
	w := &jsonWriter{s: &state{template: &Template{name: "message"}, line: 1}, item: ",", keyword: ":"}
	w.write(fields, 0)
	return []byte(w.b.text().s), nil
}

// Set gives a key a value in JSON.
func (m *Message) Set(key string, data []byte) error {
	v, err := decodeJSON(data)
	if err != nil {
		return fmt.Errorf("message: %s: %w", key, err)
	}
	m.set(key, v)
	return nil
}

// SetText gives a key a text, which has to be UTF-8.
func (m *Message) SetText(key, text string) { m.set(key, plain(text)) }

func (m *Message) set(key string, v value) {
	if m.fields == nil {
		*m = Message{Weight: 1, fields: newMapping()}
	}
	m.fields.setString(key, v)
}

// Role is the message's role, or "" if it has none.
func (m Message) Role() string { return m.text("role") }

// Content is the message's content if it is a string, or "".
func (m Message) Content() string { return m.text("content") }

// Reasoning is the message's reasoning if it is a string, or "".
func (m Message) Reasoning() string { return m.text(m.reasoningKey()) }

func (m Message) text(key string) string {
	if m.fields == nil {
		return ""
	}
	v, _ := m.fields.getString(key)
	t, _ := v.(text)
	return t.s
}

// isAssistant reports whether the message is the model's.
func (m Message) isAssistant() bool {
	role := m.Role()
	return role == "assistant" || role == "model"
}

// reasoningKeys are the names of a message's reasoning, the standard one first.
var reasoningKeys = []string{"reasoning_content", "thinking", "reasoning"}

// sourceOf is the source of the bytes of a message's key.
func sourceOf(key string) Source {
	switch key {
	case "role", "name":
		return Role
	case "content":
		return Content
	case "reasoning_content", "thinking", "reasoning":
		return Reasoning
	case "tool_calls":
		return ToolCalls
	}
	return Field
}

// value is message number i, from 1, as a template sees it: its strings are marked, and its reasoning is found under
// each name that templates use.
func (m Message) value(i int32, given *units) *mapping {
	fields := m.fields
	if fields == nil {
		fields = newMapping()
	}
	out := newMapping()
	out.message = i
	var reasoning value // marked
	key := m.reasoningKey()
	if key != "" {
		v, _ := fields.getString(key)
		reasoning = given.mark(v, i, key)
		out.setString("thinking", reasoning)
	}
	for _, k := range fields.keys {
		v, _ := fields.get(k)
		switch name := k.(text).s; {
		case name == key, sourceOf(name) == Reasoning && isSameText(v, reasoning): // servers give it under two names
			v = reasoning
		case m.refers(name):
			v = marks(v, origin{message: i, source: sourceOf(name)})
		default:
			v = given.mark(v, i, name)
		}
		out.set(k, v)
	}
	if key != "" {
		out.setString("reasoning_content", reasoning)
	}
	return out
}

// IsEmpty reports whether the message says nothing: it has no content but white space, no reasoning and no tool call.
func (m Message) IsEmpty() bool {
	if m.fields == nil {
		return true
	}
	content, _ := m.fields.getString("content")
	if parts, ok := content.(*sequence); ok {
		content = list(textsOf(parts))
	}
	return !hasWords(content) && !hasWords(m.reasoning()) && len(m.Calls()) == 0
}

// textsOf are the texts of the parts of a content.
func textsOf(parts *sequence) []value {
	var texts []value
	for _, item := range parts.items {
		if part, ok := item.(*mapping); ok {
			text, _ := part.getString("text")
			texts = append(texts, text)
		}
	}
	return texts
}

// Calls are the names of the tools that the message calls.
func (m Message) Calls() []string {
	if m.fields == nil {
		return nil
	}
	v, _ := m.fields.getString("tool_calls")
	calls, ok := v.(*sequence)
	if !ok {
		return nil
	}
	names := make([]string, len(calls.items))
	for i, item := range calls.items {
		call, _ := item.(*mapping)
		if call != nil {
			if function, ok := call.values["function"].(*mapping); ok {
				call = function
			}
			name, _ := call.values["name"].(text)
			names[i] = name.s
		}
	}
	return names
}

func isSameText(a, b value) bool {
	s, isText := a.(text)
	t, isToo := b.(text)
	return isText && isToo && s.s == t.s
}

// refers reports whether a key says whose words the message has, or the answer of which tool call: templates write that
// in mark-up of their own, or by the order of messages.
func (m Message) refers(key string) bool {
	return key == "role" || key == "tool_call_id" || key == "name" && slices.Contains(toolRoles, m.Role())
}

// toolRoles are those of messages with the answer of a tool.
var toolRoles = []string{"tool", "function", "ipython"}

// reasoningKey is the key of the message's reasoning, or "" if it has none.
func (m Message) reasoningKey() string {
	if m.fields != nil {
		for _, key := range reasoningKeys {
			if v, ok := m.fields.getString(key); ok && v != nil {
				return key
			}
		}
	}
	return ""
}

// marks is a copy of v with an origin on all of its strings.
func marks(v value, o origin) value {
	switch v := v.(type) {
	case text:
		return marked(v.s, o)
	case *sequence:
		items := make([]value, len(v.items))
		for i, item := range v.items {
			items[i] = marks(item, o)
		}
		return &sequence{v.kind, items}
	case *mapping:
		out := newMapping()
		for _, k := range v.keys {
			item, _ := v.get(k)
			out.set(marks(k, o), marks(item, o))
		}
		return out
	}
	return v
}

// listOf decodes the tools or the documents; None if there are none.
func (u *units) listOf(data json.RawMessage, name string, source Source) (value, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	v, err := decodeJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	q, ok := v.(*sequence)
	if !ok {
		if v == nil {
			return nil, nil
		}
		return nil, fmt.Errorf("%s: a list is expected, got %s", name, typeName(v))
	}
	for i, item := range q.items {
		if !isType[*mapping](item) {
			return nil, fmt.Errorf("%s: item %d: an object is expected, got %s", name, i, typeName(item))
		}
	}
	return u.markList(q, name, source), nil
}

// variables are the values of a template's names, with what of them is the conversation's.
func (c *Conversation) variables(o *Options) (names map[string]value, given *units, err error) {
	given = &units{}
	tools, err := given.listOf(c.Tools, "tools", Tools)
	if err != nil {
		return nil, nil, err
	}
	documents, err := given.listOf(c.Documents, "documents", Documents)
	if err != nil {
		return nil, nil, err
	}
	names = map[string]value{}
	for name, v := range o.Variables {
		data, err := encode(v)
		if err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", name, err)
		}
		decoded, err := decodeJSON(data)
		if err != nil {
			return nil, nil, fmt.Errorf("variable %s: %w", name, err)
		}
		names[name] = marks(decoded, origin{source: Variable})
	}
	messages := make([]value, len(c.Messages))
	for i, m := range c.Messages {
		messages[i] = m.value(int32(i+1), given)
	}
	names["messages"], names["tools"], names["documents"] = list(messages), tools, documents
	names["add_generation_prompt"] = o.AddGenerationPrompt
	return names, given, nil
}

func encode(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	return json.Marshal(v)
}

var errBothPrompts = errors.New("AddGenerationPrompt begins a message and ContinueFinalMessage continues one: give one of them")
