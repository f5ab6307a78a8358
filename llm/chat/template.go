package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Template is a parsed chat template. It is safe for concurrent use.
type Template struct {
	name, source string
	body         []node
	hasTag       bool // generation tags say what is trained
}

// Parse parses a template. Errors begin with the name, which is that of its file or model, and the line.
func Parse(name, source string) (t *Template, err error) {
	defer catch(&err)
	if len(source) > maxSource {
		fail(name, 1, "a template of %d bytes, and %d are the most", len(source), maxSource)
	}
	p := &parser{name: name, tokens: lex(name, source), used: map[string]bool{}, depth: map[node]int{}}
	return &Template{name, source, p.template(), p.hasTag}, nil
}

// HasGenerationTag reports whether the template itself says, by {% generation %}, what the assistant writes.
func (t *Template) HasGenerationTag() bool { return t.hasTag }

// Source is what the template was parsed from.
func (t *Template) Source() string { return t.source }

// UsesTime reports whether the text may depend on the time, which the template asks for by strftime_now.
func (t *Template) UsesTime() bool { return strings.Contains(t.source, "strftime_now") }

// Options are what a rendering needs beside the conversation. The zero value renders the conversation alone.
type Options struct {
	// AddGenerationPrompt appends what begins the assistant's answer.
	AddGenerationPrompt bool
	// ContinueFinalMessage ends the text with the last message's content, for the model to go on.
	ContinueFinalMessage bool
	// Variables are further names of the template: bos_token, eos_token, enable_thinking, … Their values are turned
	// into JSON; a json.RawMessage keeps the order of its keys.
	Variables map[string]any
	// EndOfTurn are texts of tokens that end a turn, beside the variable eos_token.
	EndOfTurn []string
	// EmptyReasoning says whether the empty blocks of reasoning are trained that the template writes.
	EmptyReasoning EmptyReasoning
	// Now is the time that strftime_now gives; if zero, the time of the rendering.
	Now time.Time
}

// Render renders a conversation as transformers' apply_chat_template does.
func (t *Template) Render(c *Conversation, o *Options) (*Rendered, error) {
	if t == nil {
		return nil, errors.New("the template is nil; Parse makes one")
	}
	if o == nil {
		o = &Options{}
	}
	if o.AddGenerationPrompt && o.ContinueFinalMessage {
		return nil, errBothPrompts
	}
	if c == nil || len(c.Messages) == 0 {
		return nil, fmt.Errorf("%s: the conversation has no message", t.name)
	}
	names, given, err := c.variables(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	var final text
	if o.ContinueFinalMessage {
		if final, err = t.tagFinalMessage(c, names); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	out, generated, err := t.run(names, o)
	if err != nil {
		return nil, err
	}
	if o.ContinueFinalMessage {
		if out, err = cutAtTag(out, final); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	given.see(out)
	r := &Rendered{Text: out.s, Spans: spans(out), template: t, conversation: c, options: o, given: given.list}
	for _, g := range generated {
		r.generated = append(r.generated, byteRange{min(g.from, len(out.s)), min(g.to, len(out.s))})
	}
	return r, nil
}

// run evaluates the template.
func (t *Template) run(names map[string]value, o *Options) (out text, generated []byteRange, err error) {
	top := &textBuilder{}
	s := &state{template: t, line: 1, now: o.Now, out: top, top: top}
	defer s.locate(&err)
	defer catch(&err)
	if s.now.IsZero() {
		s.now = time.Now()
	}
	given := &scope{}
	for name, v := range names {
		given.set(name, v)
	}
	s.exec(t.body, &scope{parent: given})
	return top.text(), s.generated, nil
}

// finalTag marks where the last message ends; transformers uses the same.
const finalTag = "CONTINUE_FINAL_MESSAGE_TAG "

// tagFinalMessage appends the tag to the last message's content, and gives the content.
func (t *Template) tagFinalMessage(c *Conversation, names map[string]value) (text, error) {
	if !strings.Contains(t.source, "content") {
		return text{}, errors.New("ContinueFinalMessage: the template uses no content")
	}
	messages := names["messages"].(*sequence).items
	last := messages[len(messages)-1].(*mapping)
	content, _ := last.getString("content")
	switch content := content.(type) {
	case text:
		last.setString("content", concat(content, plain(finalTag)))
		return content, nil
	case *sequence:
		for i := len(content.items) - 1; i >= 0; i-- {
			part, ok := content.items[i].(*mapping)
			if !ok {
				continue
			}
			if v, ok := part.getString("text"); ok && isType[text](v) {
				part.setString("text", concat(v.(text), plain(finalTag)))
				return v.(text), nil
			}
		}
	}
	return text{}, errors.New("ContinueFinalMessage: the last message has no text to continue")
}

// cutAtTag ends the text where the last message ends.
func cutAtTag(out, final text) (text, error) {
	tag := strings.TrimSpace(finalTag)
	at := strings.LastIndex(out.s, tag)
	if at < 0 || !strings.Contains(out.s, strings.TrimFunc(final.s, isSpace)) {
		return text{}, errors.New("ContinueFinalMessage: the template does not render all of the last message")
	}
	cut := out.slice(0, at)
	if !strings.HasPrefix(out.s[at:], finalTag) {
		cut = cut.trimFunc(isSpace, false, true) // the template trims its content
	}
	return cut, nil
}
