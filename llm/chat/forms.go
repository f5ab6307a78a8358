package chat

import (
	"strings"

	"github.com/goggml/ggml/internal/jinja"
)

// Forms are the forms of a conversation that a template accepts. Two parts have two forms each in data sets and APIs:
// tool call arguments are an object or its JSON text, and a content is a string or a list of parts. A template that
// knows only one form rejects the other or renders it wrongly.
type Forms struct {
	ObjectArguments, TextArguments bool
	TextContent, PartContent       bool
	Reasoning                      bool // of any answer, or only of the last
}

// Words that a trial's text is searched for.
const (
	trialQuestion = "the question of a trial"
	trialAnswer   = "the answer of a trial"
	trialReason   = "the reasoning of a trial"
	trialKey      = "trial_key"
	trialValue    = "value of a trial"
)

// Forms detects the accepted forms by rendering trial conversations with the variables of o.
func (t *Template) Forms(o *Options) Forms {
	parts := func(text string) string { return `[{"type": "text", "text": "` + text + `"}]` }
	words := func(text string) string { return `"` + text + `"` }
	const arguments = `{"` + trialKey + `": "` + trialValue + `"}`
	object := t.tryCall(o, arguments)
	text := t.tryCall(o, `"`+strings.ReplaceAll(arguments, `"`, `\"`)+`"`)
	return Forms{
		TextContent: t.tryContent(o, words(trialQuestion), words(trialAnswer)),
		PartContent: t.tryContent(o, parts(trialQuestion), parts(trialAnswer)),
		// Excludes Python's repr of the object.
		ObjectArguments: strings.Contains(object, trialKey) && strings.Contains(object, trialValue) && !strings.Contains(object, "{'"+trialKey),
		TextArguments:   strings.Contains(text, arguments),
		Reasoning:       t.tryReasoning(o),
	}
}

// try renders messages, and returns "" if the template rejects them.
func (t *Template) try(o *Options, messages ...Message) string {
	if o == nil {
		o = &Options{}
	}
	r, err := t.Render(&Conversation{Messages: messages}, &Options{Variables: o.Variables, Now: o.Now})
	if err != nil {
		return ""
	}
	return r.Text
}

func (t *Template) tryContent(o *Options, question, answer string) bool {
	user, assistant := NewMessage("user", ""), NewMessage("assistant", "")
	if user.Set("content", []byte(question)) != nil || assistant.Set("content", []byte(answer)) != nil {
		return false
	}
	text := t.try(o, user, assistant)
	return strings.Contains(text, trialQuestion) && strings.Contains(text, trialAnswer) && !strings.Contains(text, "'type'") && !strings.Contains(text, `"type"`)
}

func (t *Template) tryReasoning(o *Options) bool {
	assistant := NewMessage("assistant", trialAnswer)
	assistant.SetText(reasoningKeys[0], trialReason)
	return strings.Contains(t.try(o, NewMessage("user", trialQuestion), assistant), trialReason)
}

// tryCall renders a tool call with arguments. Templates differ in the messages that they require around it.
func (t *Template) tryCall(o *Options, arguments string) string {
	assistant, tool := NewMessage("assistant", ""), NewMessage("tool", "the result of a trial")
	call := `[{"id": "call00001", "type": "function", "function": {"name": "trial", "arguments": ` + arguments + `}}]`
	if assistant.Set("tool_calls", []byte(call)) != nil || tool.Set("tool_call_id", []byte(`"call00001"`)) != nil || tool.Set("name", []byte(`"trial"`)) != nil {
		return ""
	}
	user := NewMessage("user", trialQuestion)
	if text := t.try(o, user, assistant, tool, NewMessage("assistant", trialAnswer)); text != "" {
		return text
	}
	return t.try(o, user, assistant)
}

// Convert returns the conversation in forms that the template accepts. Parts stay unchanged if the template accepts
// them, or accepts neither form. A missing content beside tool calls becomes empty: templates that accept a missing or
// null content accept an empty one.
func (f Forms) Convert(c *Conversation) *Conversation {
	if c == nil {
		return nil
	}
	out := &Conversation{Messages: make([]Message, len(c.Messages)), Tools: c.Tools, Documents: c.Documents}
	for i, m := range c.Messages {
		out.Messages[i] = f.convert(m)
	}
	return out
}

func (f Forms) convert(m Message) Message {
	if m.fields == nil {
		return m
	}
	fields := jinja.NewDict()
	for key, v := range m.fields.Fields() {
		switch key {
		case "content":
			v = f.content(v)
		case "tool_calls":
			if f.ObjectArguments != f.TextArguments {
				v = f.calls(v)
			}
		}
		fields.Set(key, v)
	}
	if content, _ := fields.Get("content"); content == nil {
		fields.Set("content", f.content(jinja.NewText("")))
	}
	return Message{m.Weight, fields}
}

// content joins the texts of parts with newlines, as inference servers do, or wraps a text in a part.
func (f Forms) content(v jinja.Value) jinja.Value {
	switch content := v.(type) {
	case jinja.Text:
		if f.PartContent && !f.TextContent {
			part := jinja.NewDict()
			part.Set("type", jinja.NewText("text"))
			part.Set("text", content)
			return jinja.NewList([]jinja.Value{part})
		}
	case *jinja.Sequence:
		if f.PartContent || !f.TextContent {
			return v
		}
		var texts []string
		for _, item := range content.Items {
			part, ok := item.(*jinja.Dict)
			if !ok {
				return v
			}
			v, _ := part.Get("text")
			words, ok := v.(jinja.Text)
			if !ok {
				return content // an image: left to the template
			}
			texts = append(texts, words.String())
		}
		return jinja.NewText(strings.Join(texts, "\n"))
	}
	return v
}

// calls returns a copy of the tool calls with their arguments in the other form.
func (f Forms) calls(v jinja.Value) jinja.Value {
	switch v := v.(type) {
	case *jinja.Sequence:
		items := make([]jinja.Value, len(v.Items))
		for i, item := range v.Items {
			items[i] = f.calls(item)
		}
		return jinja.NewList(items)
	case *jinja.Dict:
		out := jinja.NewDict()
		for key, item := range v.Fields() {
			switch key {
			case "function":
				item = f.calls(item)
			case "arguments":
				item = f.arguments(item)
			}
			out.Set(key, item)
		}
		return out
	}
	return v
}

func (f Forms) arguments(v jinja.Value) jinja.Value {
	switch arguments := v.(type) {
	case jinja.Text:
		if !f.ObjectArguments {
			return v
		}
		if strings.TrimSpace(arguments.String()) == "" {
			return jinja.NewDict()
		}
		object, err := jinja.DecodeJSON([]byte(arguments.String()))
		if object, ok := object.(*jinja.Dict); ok && err == nil {
			return object
		}
	case *jinja.Dict:
		if f.TextArguments {
			if text, err := jinja.EncodeJSON("", arguments, ", ", ": "); err == nil {
				return jinja.NewText(text)
			}
		}
	}
	return v
}
