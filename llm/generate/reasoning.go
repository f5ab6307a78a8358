package generate

import (
	"regexp"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
)

// reasoningMarks surround a model's reasoning; "" if it has none.
type reasoningMarks struct{ open, close string }

// Marks that a template has around a text.
var (
	markBefore = regexp.MustCompile(`(?:<[^<>\s]+>|\[[^\[\]\s]+\])\s*$`)
	markBehind = regexp.MustCompile(`^\s*(?:<[^<>\s]+>|\[[^\[\]\s]+\])`)
)

// newReasoningMarks finds the marks by rendering an answer with reasoning. If the template renders no
// reasoning but cuts it out of answers, the cut shows the closing mark.
func newReasoningMarks(f *format) reasoningMarks {
	answer := chat.NewMessage("assistant", "A")
	answer.SetText("reasoning_content", "R")
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Q"), answer}}
	o := f.rendering
	if rendered, err := f.template.Render(f.forms.Convert(talk), &o); err == nil {
		at := slices.IndexFunc(rendered.Spans, func(s chat.Span) bool { return s.Message == 1 && s.Source == chat.Reasoning })
		if at >= 0 {
			words := rendered.Spans[at]
			return reasoningMarks{
				open:  strings.TrimSpace(markBefore.FindString(rendered.Text[:words.From])),
				close: strings.TrimSpace(markBehind.FindString(rendered.Text[words.To:])),
			}
		}
	}
	if strings.Contains(f.template.Source(), "</think>") {
		return reasoningMarks{open: "<think>", close: "</think>"}
	}
	return reasoningMarks{}
}

// opens reports whether a prompt ends with the opening mark, so that the reply begins with reasoning.
func (m reasoningMarks) opens(prompt string) bool {
	return m.open != "" && strings.HasSuffix(strings.TrimSpace(prompt), m.open)
}

// split returns the reasoning of a reply and the answer after it.
func (m reasoningMarks) split(content string, isOpen bool) (reasoning, answer string) {
	rest, begins := strings.CutPrefix(strings.TrimSpace(content), m.open)
	if m.open == "" || m.close == "" || !isOpen && !begins {
		return "", content
	}
	reasoning, answer, _ = strings.Cut(rest, m.close)
	return strings.TrimSpace(reasoning), strings.TrimSpace(answer)
}
