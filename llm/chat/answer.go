package chat

import (
	"crypto/rand"
	"encoding/json"
	"strings"

	"github.com/goggml/ggml/internal/jinja"
)

// Answer is what a model has written, by its parts. Each grows while the answer is generated.
type Answer struct {
	Reasoning string
	Text      string // without reasoning and tool calls
	Calls     []ToolCall
}

// ToolCall is a call of a tool by a model.
type ToolCall struct {
	// ID is what the model writes before the arguments, or a random text of nine letters and digits, as templates of
	// Mistral require.
	ID   string
	Name string
	// Arguments is JSON text, an object by parameters. If the answer ends within the call, it is incomplete, so no valid
	// JSON.
	Arguments string
}

// Message returns the answer as a message of the assistant, to be followed by the tools' results.
func (a Answer) Message() Message {
	m := NewMessage("assistant", a.Text)
	if a.Reasoning != "" {
		m.SetText(reasoningKeys[0], a.Reasoning)
	}
	calls := make([]jinja.Value, len(a.Calls))
	for i, c := range a.Calls {
		function, call := jinja.NewDict(), jinja.NewDict()
		function.Set("name", jinja.NewText(c.Name))
		function.Set("arguments", jinja.NewText(c.Arguments))
		call.Set("id", jinja.NewText(c.ID))
		call.Set("type", jinja.NewText("function"))
		call.Set("function", function)
		calls[i] = call
	}
	if len(calls) > 0 {
		m.set("tool_calls", jinja.NewList(calls))
	}
	return m
}

// newCallID returns an ID for a call to which the model has given none.
func newCallID() string { return rand.Text()[:9] }

// AnswerForm is the way in which models that were trained with a template write the parts of an answer. It is safe for
// concurrent use.
type AnswerForm struct {
	reasoning reasoningMarks
	calls     *callForm // nil if the template has none that is known
	text      *CallText // of calls; nil: unknown
	harmony   bool
}

// AnswerForm finds the form by rendering trial conversations with the variables of o, which may be nil: reasoning is inside
// the mark-up that the template writes around it, and calls have the form that reads the trial's calls back. If a template
// renders no calls, its instructions to the model decide.
func (t *Template) AnswerForm(o *Options) *AnswerForm {
	if t == nil {
		return &AnswerForm{}
	}
	plain := Options{}
	if o != nil {
		plain.Variables, plain.Now = o.Variables, o.Now
	}
	if isHarmony(t.Source()) {
		return &AnswerForm{harmony: true}
	}
	forms := t.Forms(&plain)
	calls := t.callForm(forms, plain)
	return &AnswerForm{reasoning: t.reasoningMarks(forms, plain), calls: calls, text: t.callText(calls, forms, plain)}
}

// ToolCalls returns the name of the form of tool calls, such as "Hermes"; "" if it is unknown, so that calls stay in the text.
func (f *AnswerForm) ToolCalls() string {
	switch {
	case f == nil:
	case f.harmony:
		return "Harmony"
	case f.calls != nil:
		return f.calls.name
	}
	return ""
}

// Marks returns texts around the parts of every answer, with tools or without. Those that are control tokens must be shown
// to [AnswerReader.Write].
func (f *AnswerForm) Marks() []string {
	switch {
	case f == nil:
		return nil
	case f.harmony:
		return []string{channelMark, messageMark}
	}
	if f.reasoning.open == "" || f.reasoning.close == "" {
		return nil
	}
	return []string{f.reasoning.open, f.reasoning.close}
}

// ReasoningEnd returns the text that ends reasoning which a rendered prompt begins; "" if it begins none.
func (f *AnswerForm) ReasoningEnd(prompt string) string {
	if f == nil || !f.reasoning.opens(prompt) {
		return ""
	}
	return f.reasoning.close
}

// An AnswerReader separates the parts of an answer while it is generated. It is not safe for concurrent use.
type AnswerReader struct{ parts partsReader }

// A partsReader reads answers of one form.
type partsReader interface {
	write(text string)
	writeText(text string) // which has no marks
	end()
	answer() Answer
}

// NewReader returns a reader of the answer that follows a rendered prompt. Without tools, a list of schemas, calls stay in
// the text. The schemas decide whether a parameter is a text.
func (f *AnswerForm) NewReader(prompt string, tools json.RawMessage) *AnswerReader {
	switch {
	case f == nil:
		f = &AnswerForm{}
	case f.harmony:
		return &AnswerReader{newHarmonyReader(prompt)}
	}
	return &AnswerReader{newReasoningReader(f, prompt, tools)}
}

// Write reads the next text of the answer, in whole characters.
func (r *AnswerReader) Write(text string) {
	if r != nil && r.parts != nil {
		r.parts.write(text)
	}
}

// WriteText is [AnswerReader.Write] for text that is not of the tokens which the [AnswerForm.Marks] are: a mark that it spells is
// not one. Forms other than Harmony read it as Write does.
func (r *AnswerReader) WriteText(text string) {
	if r != nil && r.parts != nil {
		r.parts.writeText(text)
	}
}

// End reads the end of the answer: text that might have begun a mark is the answer's.
func (r *AnswerReader) End() {
	if r != nil && r.parts != nil {
		r.parts.end()
	}
}

// Answer returns the parts so far. Text that may begin a mark is left out until that is known. The caller must not change
// the calls.
func (r *AnswerReader) Answer() Answer {
	if r == nil || r.parts == nil {
		return Answer{}
	}
	return r.parts.answer()
}

// heldBack returns how many of the last bytes of a text may begin one of the marks.
func heldBack(text string, marks ...string) int {
	most := 0
	for _, mark := range marks {
		for n := min(len(mark)-1, len(text)); n > most; n-- {
			if strings.HasSuffix(text, mark[:n]) {
				most = n
			}
		}
	}
	return most
}
