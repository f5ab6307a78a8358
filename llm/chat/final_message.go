package chat

import (
	"errors"
	"strings"

	"github.com/goggml/ggml/internal/jinja"
)

// finalTag marks the end of the last message, as in transformers.
const finalTag = "CONTINUE_FINAL_MESSAGE_TAG "

// tagFinalMessage appends finalTag to the last message's content, and returns that content.
func (t *Template) tagFinalMessage(c *Conversation, names map[string]jinja.Value) (jinja.Text, error) {
	if !strings.Contains(t.Source(), "content") {
		return jinja.Text{}, errors.New("ContinueFinalMessage: the template uses no content")
	}
	messages := names["messages"].(*jinja.Sequence).Items
	last := messages[len(messages)-1].(*jinja.Dict)
	content, _ := last.Get("content")
	switch content := content.(type) {
	case jinja.Text:
		last.Set("content", jinja.Concat(content, jinja.NewText(finalTag)))
		return content, nil
	case *jinja.Sequence:
		for i := len(content.Items) - 1; i >= 0; i-- {
			part, ok := content.Items[i].(*jinja.Dict)
			if !ok {
				continue
			}
			v, _ := part.Get("text")
			if text, ok := v.(jinja.Text); ok {
				part.Set("text", jinja.Concat(text, jinja.NewText(finalTag)))
				return text, nil
			}
		}
	}
	return jinja.Text{}, errors.New("ContinueFinalMessage: the last message has no text to continue")
}

// cutAtTag truncates the text at the end of the last message.
func cutAtTag(out, final jinja.Text) (jinja.Text, error) {
	text := out.String()
	at := strings.LastIndex(text, strings.TrimSpace(finalTag))
	if at < 0 || !strings.Contains(text, strings.TrimFunc(final.String(), jinja.IsSpace)) {
		return jinja.Text{}, errors.New("ContinueFinalMessage: the template does not render all of the last message")
	}
	end := at
	if !strings.HasPrefix(text[at:], finalTag) { // the template trims the content
		end = len(strings.TrimRightFunc(text[:at], jinja.IsSpace))
	}
	return out.Slice(0, end), nil
}
