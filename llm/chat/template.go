package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goggml/ggml/internal/jinja"
)

// Template is a parsed chat template. It is safe for concurrent use.
type Template struct{ parsed jinja.Template }

// Parse parses a template. Errors begin with the name, which names its file or model, and the line.
func Parse(name, source string) (*Template, error) {
	t, err := jinja.Parse(name, source)
	if err != nil {
		return nil, templateError(err)
	}
	return &Template{*t}, nil
}

// HasGenerationTag reports whether the template itself says, by {% generation %}, what the assistant writes.
func (t *Template) HasGenerationTag() bool { return t.parsed.HasGenerationTag() }

// Source returns the text of the template.
func (t *Template) Source() string { return t.parsed.Source() }

// UsesTime reports whether the text may depend on the time: the template uses strftime_now.
func (t *Template) UsesTime() bool { return strings.Contains(t.Source(), "strftime_now") }

// Options are the settings of a rendering. The zero value renders the conversation alone.
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

// Render renders a conversation as transformers' apply_chat_template does. Options may be nil.
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
		return nil, fmt.Errorf("%s: the conversation has no message", t.parsed.Name())
	}
	names, given, err := c.variables(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.parsed.Name(), err)
	}
	var final jinja.Text
	if o.ContinueFinalMessage {
		if final, err = t.tagFinalMessage(c, names); err != nil {
			return nil, fmt.Errorf("%s: %w", t.parsed.Name(), err)
		}
	}
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	out, generated, err := t.parsed.Render(names, now)
	if err != nil {
		return nil, templateError(err)
	}
	if o.ContinueFinalMessage {
		if out, err = cutAtTag(out, final); err != nil {
			return nil, fmt.Errorf("%s: %w", t.parsed.Name(), err)
		}
	}
	given.see(out)
	r := &Rendered{Text: out.String(), Spans: given.spans(out), template: t, conversation: c, options: o, given: given.list}
	for _, g := range generated {
		r.generated = append(r.generated, byteRange{min(g.From, len(r.Text)), min(g.To, len(r.Text))})
	}
	return r, nil
}

var errBothPrompts = errors.New("AddGenerationPrompt begins a message and ContinueFinalMessage continues one: give one of them")
