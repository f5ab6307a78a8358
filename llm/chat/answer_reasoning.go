package chat

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// reasoningMarks surround a model's reasoning; "" if it has none.
type reasoningMarks struct{ open, close string }

// opens reports whether a prompt ends with the opening mark, so that the answer begins with reasoning.
func (m reasoningMarks) opens(prompt string) bool {
	return m.open != "" && strings.HasSuffix(strings.TrimSpace(prompt), m.open)
}

// Marks that a template has around a text.
var (
	markBefore = regexp.MustCompile(`(?:<[^<>\s]+>|\[[^\[\]\s]+\])\s*$`)
	markBehind = regexp.MustCompile(`^\s*(?:<[^<>\s]+>|\[[^\[\]\s]+\])`)
)

// knownReasoning are marks of templates that render reasoning from parts of contents, under conditions or not at all. A
// template has them if it has the text about.
var knownReasoning = []struct {
	about string
	marks reasoningMarks
}{
	{"<|channel>thought", reasoningMarks{"<|channel>thought", "<channel|>"}},               // Gemma 4
	{"<|END_THINKING|>", reasoningMarks{"<|START_THINKING|>", "<|END_THINKING|>"}},         // Cohere
	{"[/THINK]", reasoningMarks{"[THINK]", "[/THINK]"}},                                    // Magistral, Ministral 3
	{"open_tag('think')", reasoningMarks{"<|open|>think<|sep|>", "<|close|>think<|sep|>"}}, // Kimi K3
}

// reasoningMarks finds the marks by rendering an answer with reasoning. A template that renders no reasoning may cut it out
// of answers, or describe it.
func (t *Template) reasoningMarks(forms Forms, o Options) reasoningMarks {
	for _, known := range knownReasoning {
		if strings.Contains(t.Source(), known.about) {
			return known.marks
		}
	}
	if m := t.tryReasoningMarks(forms, o); m.open != "" && m.close != "" {
		return m
	}
	if strings.Contains(t.Source(), "</think>") {
		return reasoningMarks{"<think>", "</think>"}
	}
	return reasoningMarks{}
}

// tryReasoningMarks returns the marks around reasoning that the template does not write around an answer too.
func (t *Template) tryReasoningMarks(forms Forms, o Options) (m reasoningMarks) {
	render := func(reasons bool, source Source) (before, behind string) {
		answer := NewMessage("assistant", trialAnswer)
		if reasons {
			answer.SetText(reasoningKeys[0], trialReason)
		}
		talk := &Conversation{Messages: []Message{NewMessage("user", trialQuestion), answer}}
		rendered, err := t.Render(forms.Convert(talk), &o)
		if err != nil {
			return "", ""
		}
		at := slices.IndexFunc(rendered.Spans, func(s Span) bool { return s.Message == 1 && s.Source == source })
		if at < 0 {
			return "", ""
		}
		words := rendered.Spans[at]
		return strings.TrimSpace(markBefore.FindString(rendered.Text[:words.From])), strings.TrimSpace(markBehind.FindString(rendered.Text[words.To:]))
	}
	m.open, m.close = render(true, Reasoning)
	if m.open != "" {
		if before, _ := render(false, Content); before == m.open {
			return reasoningMarks{}
		}
	}
	return m
}

// A reasoningReader reads reasoning, which comes first, and passes the rest on.
type reasoningReader struct {
	marks     reasoningMarks
	state     reasoningState
	reasoning string // or what may become it
	rest      *callReader
}

type reasoningState uint8

const (
	beforeReasoning reasoningState = iota
	inReasoning
	behindReasoning // before the first character of the answer
	inAnswer
)

func newReasoningReader(f *AnswerForm, prompt string, tools json.RawMessage) *reasoningReader {
	r := &reasoningReader{marks: f.reasoning, rest: newCallReader(f.calls, prompt, tools)}
	switch {
	case r.marks.open == "" || r.marks.close == "":
		r.state = inAnswer
	case r.marks.opens(prompt):
		r.state = inReasoning
	}
	return r
}

func (r *reasoningReader) write(text string) {
	switch r.state {
	case beforeReasoning:
		r.reasoning += text
		begun := strings.TrimLeftFunc(r.reasoning, unicode.IsSpace)
		if rest, opened := strings.CutPrefix(begun, r.marks.open); opened {
			r.state, r.reasoning = inReasoning, ""
			r.write(rest)
		} else if !strings.HasPrefix(r.marks.open, begun) {
			r.answers(r.reasoning)
		}
	case inReasoning:
		r.reasoning += text
		from := max(0, len(r.reasoning)-len(text)-len(r.marks.close))
		if at := strings.Index(r.reasoning[from:], r.marks.close); at >= 0 {
			rest := r.reasoning[from+at+len(r.marks.close):]
			r.reasoning = strings.TrimSpace(r.reasoning[:from+at])
			r.state, r.rest.trims = behindReasoning, true
			r.write(rest)
		}
	case behindReasoning:
		if text = strings.TrimLeftFunc(text, unicode.IsSpace); text != "" {
			r.state = inAnswer
			r.rest.write(text)
		}
	default:
		r.rest.write(text)
	}
}

func (r *reasoningReader) writeText(text string) { r.write(text) }

// answers finds that the answer has no reasoning.
func (r *reasoningReader) answers(text string) {
	r.state, r.reasoning = inAnswer, ""
	r.rest.write(text)
}

func (r *reasoningReader) end() {
	switch r.state {
	case beforeReasoning:
		r.answers(r.reasoning)
	case inReasoning:
		r.reasoning, r.state = strings.TrimSpace(r.reasoning), behindReasoning
	}
	r.rest.end()
}

func (r *reasoningReader) answer() Answer {
	a := r.rest.answer()
	switch r.state {
	case inReasoning:
		words := r.reasoning[:len(r.reasoning)-heldBack(r.reasoning, r.marks.close)]
		a.Reasoning = strings.TrimSpace(words)
	case behindReasoning, inAnswer:
		a.Reasoning = r.reasoning
	}
	return a
}
