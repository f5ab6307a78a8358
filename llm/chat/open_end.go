package chat

import "slices"

// OpenEnd returns the token that should end the last answer, if the template leaves that answer open but ends earlier
// ones, by their eos_token or the header of the next turn, such as <|user|>. Without this token, training does not
// teach the model to stop. OpenEnd returns "" if the answer has an end or is not trained.
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

// behind returns the mark-up from the last word of message i to the next word of any message.
func (r *Rendered) behind(i int) (string, bool) {
	for _, span := range slices.Backward(r.Spans) {
		if span.isWord(i) {
			return r.Text[span.To:r.nextWord(span.To)], true
		}
	}
	return "", false
}
