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

// Parse parses a template. Errors begin with name, which identifies the file or model, and the line.
func Parse(name, source string) (*Template, error) {
	t, err := jinja.Parse(name, source)
	if err != nil {
		return nil, templateError(err)
	}
	return &Template{*t}, nil
}

// HasGenerationTag reports whether the template marks the assistant's text with {% generation %}.
func (t *Template) HasGenerationTag() bool { return t.parsed.HasGenerationTag() }

// Source returns the text of the template.
func (t *Template) Source() string { return t.parsed.Source() }

// UsesTime reports whether the template uses strftime_now, so that the text may depend on the time.
func (t *Template) UsesTime() bool { return strings.Contains(t.Source(), "strftime_now") }

// Options are the settings of a rendering. The zero value renders the conversation alone.
type Options struct {
	// AddGenerationPrompt appends the beginning of the assistant's answer.
	AddGenerationPrompt bool
	// ContinueFinalMessage ends the text with the last message's content, for the model to continue.
	ContinueFinalMessage bool
	// Variables are further variables of the template: bos_token, eos_token, enable_thinking, … Values are marshaled to
	// JSON; a json.RawMessage keeps the order of its keys.
	Variables map[string]any
	// EndOfTurn are the texts of tokens that end a turn, beside the variable eos_token.
	EndOfTurn []string
	// EmptyReasoning selects whether to train the empty reasoning blocks that the template writes.
	EmptyReasoning EmptyReasoning
	// Now is the time for strftime_now; the zero value means the time of rendering.
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

var errBothPrompts = errors.New("AddGenerationPrompt begins a message, and ContinueFinalMessage continues one: set only one of them")
