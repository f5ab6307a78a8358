package chat

import "slices"

// OpenEnd is the token that ends the last answer of the model where the template leaves that one open, and ends those
// before: with their eos_token, or with the header of the next turn, such as <|user|>. Text that is trained without it
// does not teach a model to stop. It is "" if the answer has an end, or is not trained.
func (r *Rendered) OpenEnd() string {
	if r.template == nil || r.template.HasGenerationTag() || r.options.AddGenerationPrompt || r.options.ContinueFinalMessage {
		return ""
	}
	messages := r.conversation.Messages
	last := len(messages) - 1
	if last < 0 || !messages[last].isAssistant() || messages[last].Weight == 0 {
		return ""
	}
	if tail, ok := r.behind(last); !ok || r.endToken(tail) > 0 {
		return ""
	}
	next := r.message("user", "Q")
	if len(messages[last].Calls()) > 0 {
		next = r.message("tool", "Q")
	}
	followed := r.probe(append(slices.Clone(messages), next)...)
	if followed == nil {
		return ""
	}
	tail, _ := followed.behind(last)
	_, token := r.findEndToken(tail)
	return token
}

// behind is the mark-up behind message i's last word, up to the next word of somebody.
func (r *Rendered) behind(i int) (string, bool) {
	for _, span := range slices.Backward(r.Spans) {
		if span.isWord(i) {
			return r.Text[span.To:r.nextWord(span.To)], true
		}
	}
	return "", false
}
