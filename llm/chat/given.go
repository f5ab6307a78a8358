package chat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/goggml/ggml/internal/jinja"
)

// Given is a part of a conversation that is passed to a template: a content or one of its parts, a reasoning, the name
// or the arguments of a tool call, another key of a message, a tool or a document.
type Given struct {
	Message int    // index of the message; -1 for tools and documents
	Source  Source // source of its bytes
	Path    string // within the message or the conversation: content, tool_calls[0].function.arguments, tools[2]
	Index   int    // index in the list of tools, documents, tool calls or content parts; 0 outside of lists
	Cut     bool   // only part of a content is rendered
}

// A unit is a value passed to the template, and how much of it the text contains.
type unit struct {
	Given
	words bool // a value other than white space
	size  int  // characters other than white space
	seen  int  // how many of them the text contains
}

// units are the values that a conversation passes to a template. The tag of a text is the index of its unit plus 1;
// text without a tag is the template's own.
type units struct{ list []unit }

// tag appends a unit for v and returns the tag of its bytes.
func (u *units) tag(g Given, v jinja.Value) int32 {
	size := 0
	if t, ok := v.(jinja.Text); ok {
		size = countWords(t.String())
	}
	u.list = append(u.list, unit{Given: g, words: hasWords(v), size: size})
	return int32(len(u.list))
}

// frame returns a tag for bytes that are not a message's words.
func (u *units) frame(message int, source Source) int32 {
	u.list = append(u.list, unit{Given: Given{Message: message, Source: source}})
	return int32(len(u.list))
}

// message converts message i for a template: its strings are tagged, and its reasoning appears under each name that
// templates use.
func (u *units) message(i int, m Message) *jinja.Dict {
	out := jinja.NewDict()
	out.Mark = int32(i + 1)
	if m.fields == nil {
		return out
	}
	var reasoning jinja.Value // tagged
	key := m.reasoningKey()
	if key != "" {
		reasoning = u.field(i, key, m.reasoning())
		out.Set("thinking", reasoning)
	}
	for name, v := range m.fields.Fields() {
		switch {
		case name == key, sourceOf(name) == Reasoning && isSameText(v, reasoning): // servers repeat it under a second name
			v = reasoning
		case m.refers(name):
			v = jinja.Retag(v, u.frame(i, sourceOf(name)))
		default:
			v = u.field(i, name, v)
		}
		out.Set(name, v)
	}
	if key != "" {
		out.Set("reasoning_content", reasoning)
	}
	return out
}

func isSameText(a, b jinja.Value) bool {
	s, isText := a.(jinja.Text)
	t, isToo := b.(jinja.Text)
	return isText && isToo && s.String() == t.String()
}

// field returns the value of a key of message i with tagged strings.
func (u *units) field(i int, key string, v jinja.Value) jinja.Value {
	g := Given{Message: i, Source: sourceOf(key), Path: key}
	list, isList := v.(*jinja.Sequence)
	if !isList || key != "content" && key != "tool_calls" {
		return jinja.Retag(v, u.tag(g, v))
	}
	frame := u.frame(i, g.Source)
	items := make([]jinja.Value, len(list.Items))
	for n, item := range list.Items {
		g.Index, g.Path = n, fmt.Sprintf("%s[%d]", key, n)
		items[n] = u.item(item, g, frame)
	}
	return jinja.NewList(items)
}

// item tags a content part (words: its text) or a tool call (words: its name and arguments).
func (u *units) item(v jinja.Value, g Given, frame int32) jinja.Value {
	object, ok := v.(*jinja.Dict)
	if !ok {
		return jinja.Retag(v, u.tag(g, v))
	}
	out := jinja.Retag(object, frame).(*jinja.Dict)
	for key, v := range object.Fields() {
		field := g
		field.Path += "." + key
		switch {
		case g.Source == ToolCalls && key == "function":
			out.Set(key, u.item(v, field, frame))
		case g.Source == ToolCalls && (key == "name" || key == "arguments"), g.Source == Content && key == "text":
			out.Set(key, jinja.Retag(v, u.tag(field, v)))
		}
	}
	return out
}

// listOf returns the tools or documents with tagged strings; None if there are none.
func (u *units) listOf(data json.RawMessage, name string, source Source) (jinja.Value, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, nil
	}
	v, err := jinja.DecodeJSON(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if v == nil {
		return nil, nil
	}
	list, ok := v.(*jinja.Sequence)
	if !ok {
		return nil, fmt.Errorf("%s: expected a list, got %s", name, jinja.TypeName(v))
	}
	items := make([]jinja.Value, len(list.Items))
	for i, item := range list.Items {
		if _, ok := item.(*jinja.Dict); !ok {
			return nil, fmt.Errorf("%s: item %d: expected an object, got %s", name, i, jinja.TypeName(item))
		}
		g := Given{Message: -1, Source: source, Path: fmt.Sprintf("%s[%d]", name, i), Index: i}
		items[i] = jinja.Retag(item, u.tag(g, item))
	}
	return jinja.NewList(items), nil
}

// see counts the bytes of a text for the units that they come from.
func (u *units) see(t jinja.Text) {
	for chunk, o := range t.Runs() {
		if o.Tag > 0 {
			u.list[o.Tag-1].seen += countWords(chunk)
		}
	}
}

// spans returns the sources of a text.
func (u *units) spans(t jinja.Text) []Span {
	var out []Span
	to := 0
	for chunk, o := range t.Runs() {
		span := Span{From: to, Message: -1}
		if o.Tag > 0 {
			given := u.list[o.Tag-1]
			span.Message, span.Source = given.Message, given.Source
		}
		if span.Message < 0 && span.Source <= Variable {
			span.Message = int(o.Turn) - 1
		}
		to += len(chunk)
		if n := len(out); n > 0 && out[n-1].Message == span.Message && out[n-1].Source == span.Source {
			out[n-1].To = to
			continue
		}
		span.To = to
		out = append(out, span)
	}
	return out
}
