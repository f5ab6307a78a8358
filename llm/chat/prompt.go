package chat

import (
	"fmt"
	"slices"
	"strings"
)

// A PromptError reports a generation prompt that differs from the header of answers in a conversation: the model is
// trained to answer after the header, but programs prompt it with the prompt.
type PromptError struct {
	Prompt string // what AddGenerationPrompt appends, or ""
	Header string // mark-up of an answer's turn before its first word
}

// Error shows the prompt and the header.
func (e *PromptError) Error() string {
	switch {
	case e == nil:
		return "the generation prompt is not the start of answers"
	case e.Prompt == "":
		return fmt.Sprintf("the chat template has no generation prompt, but writes %q before answers", e.Header)
	}
	return fmt.Sprintf("the chat template's generation prompt is %q, but it writes %q before answers", e.Prompt, e.Header)
}

// CheckPrompt renders the generation prompt and the header of an answer, and returns a [*PromptError] if they begin
// different turns. They may differ after the mark-up that names the assistant, for example by a reasoning block. If the
// template rejects the trial conversation, nothing is checked. Options may be nil.
func (t *Template) CheckPrompt(o *Options) error {
	if t == nil {
		return nil
	}
	plain := Options{}
	if o != nil {
		plain.Variables, plain.Now = o.Variables, o.Now
	}
	forms := t.Forms(&plain)
	render := func(asks bool, messages ...Message) *Rendered {
		o := plain
		o.AddGenerationPrompt = asks
		r, err := t.Render(forms.Convert(&Conversation{Messages: messages}), &o)
		if err != nil {
			return nil
		}
		return r
	}
	question, answer := NewMessage("user", trialQuestion), NewMessage("assistant", trialAnswer)
	asked, answered := render(true, question), render(false, question, answer)
	header, _, ok := answered.around(1)
	if asked == nil || !ok {
		return nil
	}
	before := answered.Text[:answered.firstWord(1)-len(header)]
	prompt, ok := strings.CutPrefix(asked.Text, before)
	if !ok || strings.TrimSpace(header) == "" { // the prompt may be a block of reasoning
		return nil
	}
	// A header that user turns share, such as <|im_start|>, does not name the speaker.
	ofUser, _, _ := render(false, question, answer, question).around(2)
	shared := header[:commonMarkup(header, prompt)]
	if strings.TrimSpace(shared) != "" && !strings.HasPrefix(ofUser, shared) {
		return nil
	}
	return &PromptError{prompt, header}
}

// RenderPrompt renders a conversation for the assistant to answer, as in training: with the generation prompt, or with
// the header of answers if they differ, see [Template.CheckPrompt]. Options may be nil.
func (t *Template) RenderPrompt(c *Conversation, o *Options) (*Rendered, error) {
	asking := Options{}
	if o != nil {
		asking = *o
	}
	asking.AddGenerationPrompt = true
	if c == nil || asking.ContinueFinalMessage || t.CheckPrompt(o) == nil {
		return t.Render(c, &asking)
	}
	asking.AddGenerationPrompt = false
	answer := t.Forms(o).convert(NewMessage("assistant", trialAnswer))
	answer.Weight = 0 // train nothing of the prompt
	answered := Conversation{append(slices.Clone(c.Messages), answer), c.Tools, c.Documents}
	r, err := t.Render(&answered, &asking)
	if err != nil {
		return nil, err
	}
	end := r.firstWord(len(c.Messages))
	r.Text, r.Spans, r.generated = r.Text[:end], r.Spans[:r.spanAt(end)], nil
	return r, nil
}
