package chat

import (
	"fmt"
	"strings"
)

// Given is something of a conversation that a template is given: a content or a part of it, a reasoning, the name or the
// arguments of a tool call, another key of a message, a tool or a document.
type Given struct {
	Message int // index of the message; -1 for tools and documents
	Source  Source
	Path    string // in the message or the conversation: content, tool_calls[0].function.arguments, tools[2]
	Index   int    // of a tool, a document, a tool call or a part of a content in its list; 0 for what is in none
	Cut     bool   // some of a content is in the text, and a part is not
}

// A unit is what was given, of which bytes are in the text or none are.
type unit struct {
	Given
	words bool // it has a value, or a text that is not white space
	size  int  // characters of its texts that are not white space
	seen  int  // those of the text that come from it
}

// A template that takes a reasoning out of a content writes its tags anew: the characters of tags are no loss.
const maxTags = 24

// units are what a conversation gives to a template. A number in them, from 1, is a part of the origin of bytes.
type units struct{ list []unit }

// origin begins a unit, which has the words of v, and gives the origin of its bytes.
func (u *units) origin(g Given, v value) origin {
	size := 0
	if t, ok := v.(text); ok {
		size = countWords(t.s)
	}
	u.list = append(u.list, unit{Given: g, words: hasWords(v), size: size})
	return origin{int32(g.Message + 1), int32(len(u.list)), g.Source}
}

// countWords counts the characters that are not white space.
func countWords(s string) int {
	n := 0
	for _, r := range s {
		if !isSpace(r) {
			n++
		}
	}
	return n
}

// hasWords reports whether v is a number or a truth, a text with more than white space, or has such a value or a key.
func hasWords(v value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case text:
		return strings.TrimFunc(v.s, isSpace) != ""
	case *sequence:
		for _, item := range v.items {
			if hasWords(item) {
				return true
			}
		}
	case *mapping:
		return len(v.keys) > 0
	default:
		return true
	}
	return false
}

// mark is a copy of the value of a message's key with origins on its strings.
func (u *units) mark(v value, message int32, key string) value {
	g := Given{Message: int(message) - 1, Source: sourceOf(key), Path: key}
	frame := origin{message: message, source: g.Source} // of what is nobody's words
	list, isList := v.(*sequence)
	switch {
	case isList && (key == "content" || key == "tool_calls"):
		items := make([]value, len(list.items))
		for i, item := range list.items {
			g.Index, g.Path = i, fmt.Sprintf("%s[%d]", key, i)
			items[i] = u.markFields(item, g, frame)
		}
		return &sequence{list.kind, items}
	}
	return marks(v, u.origin(g, v))
}

// markFields marks a part of a content, whose words are its text, or a tool call, whose words are a name and arguments.
func (u *units) markFields(v value, g Given, frame origin) value {
	object, ok := v.(*mapping)
	if !ok {
		return marks(v, u.origin(g, v))
	}
	out := newMapping()
	for _, k := range object.keys {
		item, _ := object.get(k)
		key, _ := k.(text)
		field := g
		field.Path += "." + key.s
		switch {
		case g.Source == ToolCalls && key.s == "function":
			item = u.markFields(item, field, frame)
		case g.Source == ToolCalls && (key.s == "name" || key.s == "arguments"), g.Source == Content && key.s == "text":
			item = marks(item, u.origin(field, item))
		default:
			item = marks(item, frame)
		}
		out.set(marks(k, frame), item)
	}
	return out
}

// markList marks tools or documents.
func (u *units) markList(v *sequence, name string, source Source) value {
	items := make([]value, len(v.items))
	for i, item := range v.items {
		items[i] = marks(item, u.origin(Given{Message: -1, Source: source, Path: fmt.Sprintf("%s[%d]", name, i), Index: i}, item))
	}
	return &sequence{v.kind, items}
}

// see notes which units bytes of a text come from.
func (u *units) see(t text) {
	from := 0
	for _, r := range t.runs {
		if r.unit > 0 {
			u.list[r.unit-1].seen += countWords(t.s[from:r.end])
		}
		from = r.end
	}
}

// Unrendered is what the conversation has and no byte of the text comes from: tools, documents and messages in their
// order, then further keys of messages; and contents of which a part is missing. White space does not count,
// nor does a key that changes the text without being in it.
func (r *Rendered) Unrendered() []Given {
	var out, keys []Given
	for _, u := range r.given {
		switch {
		case !u.words:
		case u.seen > 0:
			if u.Cut = u.Source == Content && u.seen+maxTags < u.size; u.Cut {
				out = append(out, u.Given)
			}
		case u.isKey():
			keys = append(keys, u.Given)
		default:
			out = append(out, u.Given)
		}
	}
	if len(keys) == 0 || r.isSameWithout(keys...) {
		return append(out, keys...)
	}
	for _, key := range keys {
		if r.isSameWithout(key) {
			out = append(out, key)
		}
	}
	return out
}

// isKey reports whether the unit is a key that templates may ask for without writing it, and that need not be a text.
func (u *unit) isKey() bool { return u.Message >= 0 && (u.Source == Field || u.Source == Role) }

// isSameWithout reports whether the text is the same without keys of messages.
func (r *Rendered) isSameWithout(keys ...Given) bool {
	c := *r.conversation
	c.Messages = append([]Message(nil), c.Messages...)
	for _, key := range keys {
		m := &c.Messages[key.Message]
		m.fields = m.fields.clone()
		m.fields.remove(key.Path)
	}
	without, err := r.template.Render(&c, r.options)
	return err == nil && without.Text == r.Text
}
