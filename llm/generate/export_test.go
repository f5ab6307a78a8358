package generate

// InCache returns the tokens of the chat's sequence.
func (c *Chat) InCache() []int32 { return c.sequence.Tokens() }

// UpToStop returns the text before the first stop text of a text in chunks.
func UpToStop(chunks []string, stop ...string) (text string, ended bool) {
	s := &stopTexts{stop: stop, repair: true}
	for _, chunk := range chunks {
		certain, ended := s.push(chunk)
		text += certain
		if ended {
			return text, true
		}
	}
	certain, ended := s.flush("")
	return text + certain, ended
}

// SplitReply returns the reasoning and the answer of a reply to a prompt.
func (c *Chat) SplitReply(prompt, content string) (reasoning, answer string) {
	r := c.answers.NewReader(prompt, nil)
	r.Write(content)
	r.End()
	return r.Answer().Reasoning, r.Answer().Text
}
