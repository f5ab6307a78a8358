package generate

import (
	"errors"
	"slices"
	"strings"

	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A format renders conversations for a model, and finds the parts and the end of its replies.
type format struct {
	m         *model.Model
	template  *chat.Template
	options   ChatOptions
	rendering chat.Options
	forms     chat.Forms
	ends      replyEnds
	answers   *chat.AnswerForm
	special   bool // answers have marks that are control tokens
	marked    bool // the marks are tokens, so that other tokens can only spell them
}

func newFormat(m *model.Model, o ChatOptions) (*format, error) {
	f := &format{m: m, template: o.Template, options: o, rendering: data.RenderOptions(m.Tokenizer, o.Variables)}
	if f.template == nil {
		var err error
		if f.template, err = data.ModelTemplate(m.Path, m.Tokenizer); err != nil {
			return nil, err
		}
	}
	f.rendering.Now = o.Now
	f.forms = f.template.Forms(&f.rendering)
	f.ends, f.answers = newReplyEnds(f), f.template.AnswerForm(&f.rendering)
	f.special = slices.ContainsFunc(f.answers.Marks(), f.isSpecial)
	f.marked = !slices.ContainsFunc(f.answers.Marks(), func(mark string) bool { return f.begins(mark, f.m.Tokenizer.IsText) })
	return f, nil
}

// isSpecial reports whether a mark begins with a special token.
func (f *format) isSpecial(mark string) bool { return f.begins(mark, f.m.Tokenizer.IsSpecial) }

// begins reports whether a mark begins with a token of a kind.
func (f *format) begins(mark string, is func(tokenizer.ID) bool) bool {
	ids := f.m.Tokenizer.Encode(mark, tokenizer.EncodeOptions{ParseSpecial: true})
	return len(ids) > 0 && is(ids[0])
}

// reader returns a reader of the answer to a conversation.
func (f *format) reader(prompt string, talk *chat.Conversation) *chat.AnswerReader {
	if f.answers.ToolCalls() == "" {
		return f.answers.NewReader(prompt, nil)
	}
	return f.answers.NewReader(prompt, talk.Tools)
}

// render returns a conversation as text and as tokens.
func (f *format) render(talk *chat.Conversation) (prompt string, ids []int32, err error) {
	if talk == nil {
		return "", nil, errors.New("the conversation is nil")
	}
	o, n, render := f.rendering, len(talk.Messages), f.template.RenderPrompt
	if n > 0 && talk.Messages[n-1].Role() == "assistant" {
		o.ContinueFinalMessage, render = true, f.template.Render
	}
	rendered, err := render(f.forms.Convert(talk), &o)
	if err != nil {
		return "", nil, &RenderError{err}
	}
	ids = data.EncodeRendered(f.m.Tokenizer, rendered)
	if len(ids) == 0 {
		return "", nil, &RenderError{errors.New("the chat template renders no text for the conversation")}
	}
	return rendered.Text, ids, nil
}

// newReply returns the generation of a reply to a rendered conversation. Calls of tools may have marks that are control tokens.
func (f *format) newReply(prompt string, talk *chat.Conversation, pick *sample.Sampler, take func(Token) error) (*generation, error) {
	g := &generation{m: f.m, pick: pick, o: Options{Limit: f.options.Limit, LogProbs: f.options.LogProbs, TopLogProbs: f.options.TopLogProbs}, take: take, ends: f.ends.tokens}
	g.stop = stopTexts{stop: append(notEmpty(f.options.Stop), f.ends.texts...), repair: true}
	g.decoder = f.m.Tokenizer.NewDecoder(tokenizer.DecodeOptions{Continuation: true, ShowSpecial: f.options.ShowSpecial || f.special || len(talk.Tools) > 0})
	pick.Forget()
	return g, f.constrainCalls(g, prompt, talk)
}

// notEmpty returns a copy of the texts without empty ones.
func notEmpty(texts []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(s string) bool { return s == "" })
}

// replyEnds are texts and tokens that end a reply, beside the tokens that end every generation.
type replyEnds struct {
	tokens []int32
	texts  []string
}

func newReplyEnds(f *format) (ends replyEnds) {
	closing := endOfTurn(f.template, f.rendering)
	if closing == "" {
		return ends
	}
	ids := f.m.Tokenizer.Encode(closing, tokenizer.EncodeOptions{ParseSpecial: true})
	if len(ids) > 0 && f.m.Tokenizer.IsSpecial(ids[0]) {
		ends.tokens = []int32{ids[0]}
	} else {
		ends.texts = append(ends.texts, closing)
	}
	return ends
}

// endOfTurn returns the text that a template puts after an answer, by which a trained model
// ends its turn; "" if there is none.
func endOfTurn(template *chat.Template, o chat.Options) string {
	const answer = "A"
	talk := &chat.Conversation{Messages: []chat.Message{chat.NewMessage("user", "Q"), chat.NewMessage("assistant", answer)}}
	rendered, err := template.Render(talk, &o)
	if err != nil {
		return "" // the template needs more messages
	}
	trained := rendered.Trained(chat.Last)
	if len(trained) == 0 {
		return ""
	}
	for _, s := range slices.Backward(rendered.Spans) {
		if s.Source == chat.Content && s.Message == 1 {
			return strings.TrimSpace(rendered.Text[s.To:max(s.To, trained[len(trained)-1].To)])
		}
	}
	return ""
}
