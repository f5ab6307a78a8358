package chat

import (
	"fmt"
	"slices"
	"strings"
)

// A PromptError is a generation prompt that is not the header of answers in a conversation: the model is trained to answer
// behind the header, and programs ask it by the prompt.
type PromptError struct {
	Prompt string // what AddGenerationPrompt adds, or ""
	Header string // the mark-up of an answer's turn before its first word
}

// Error shows both.
func (e *PromptError) Error() string {
	switch {
	case e == nil:
		return "the generation prompt is not the header of answers"
	case e.Prompt == "":
		return fmt.Sprintf("the chat template has no generation prompt, and writes %q before answers", e.Header)
	}
	return fmt.Sprintf("the chat template asks for answers by the generation prompt %q, and writes %q before them", e.Prompt, e.Header)
}

// CheckPrompt compares the generation prompt with the header of an answer, by rendering both, and gives a [*PromptError] if
// they begin different turns. Behind what says that a turn is the assistant's they may differ, such as by a block of
// reasoning. A template that refuses a question, or its answer, is not checked. Options may be nil.
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
	// A header that the user's turns have, too, such as <|im_start|>, does not say whose turn it is.
	ofUser, _, _ := render(false, question, answer, question).around(2)
	shared := header[:commonMarkup(header, prompt)]
	if strings.TrimSpace(shared) != "" && !strings.HasPrefix(ofUser, shared) {
		return nil
	}
	return &PromptError{prompt, header}
}

// RenderPrompt renders a conversation for the assistant to answer, as it was trained: with the generation prompt, or with the
// header of answers if that is another one, see [Template.CheckPrompt]. Options may be nil.
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
	answer.Weight = 0 // nothing of the prompt is trained
	answered := Conversation{append(slices.Clone(c.Messages), answer), c.Tools, c.Documents}
	r, err := t.Render(&answered, &asking)
	if err != nil {
		return nil, err
	}
	end := r.firstWord(len(c.Messages))
	r.Text, r.Spans, r.generated = r.Text[:end], r.Spans[:r.spanAt(end)], nil
	return r, nil
}
