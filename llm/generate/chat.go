package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/data"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ChatOptions are the settings of a [Chat]. The zero value follows the model.
type ChatOptions struct {
	// Template renders conversations; nil uses the model's template, which is in the vocabulary. It
	// is the default of [data.EncoderOptions] too.
	Template *chat.Template
	// Variables are further names of the template, such as enable_thinking. [data.RenderOptions]
	// adds the tokens' variables.
	Variables map[string]any
	// Now is the time that the template sees; zero: the time of each rendering.
	Now time.Time
	// Stop are texts that end a reply and are left out of it. The model's end-of-generation
	// tokens, and the text that the template puts after an answer, always end it.
	Stop []string
	// Limit is the maximum number of tokens of a reply; nil generates until the context is full.
	Limit *int
	// ShowSpecial writes control tokens of a reply as their texts: some models begin
	// tool calls with one.
	ShowSpecial bool
	// LogProbs computes [Token.LogProb]; see [Options].
	LogProbs bool
}

// A Chat lets a model answer conversations. They are rendered as the model was trained:
// by its chat template, with special tokens where the template means them, and nowhere
// else.
//
// It stores no conversation, only the tokens of the last one in its sequence. The next
// conversation is computed from the first token that differs ([infer.Sequence.Prefill]), so
// the turns of a dialogue are computed once, also if turns are removed or changed, or the
// template drops earlier reasoning. Chats in one session compute a shared system prompt once.
//
// It is not safe for concurrent use, like its session: a second answer at the same time is an error.
type Chat struct {
	m         *model.Model
	sequence  *infer.Sequence
	pick      *sample.Sampler
	template  *chat.Template
	options   ChatOptions
	rendering chat.Options
	forms     chat.Forms
	ends      replyEnds
	reasoning reasoningMarks
	access    exclusive.Access
}

// A Reply is an answer of the model.
type Reply struct {
	// Content is the text, without the end mark. Reasoning and tool calls are in it as
	// the model writes them. It is valid UTF-8: U+FFFD replaces invalid bytes.
	Content string
	// Reasoning and Answer are the parts of Content inside and after the template's reasoning
	// mark-up. Without reasoning, Answer is Content.
	Reasoning, Answer string
	Cached            int // tokens of the prompt that the session had computed before
	Stats                 // PromptFor is the time of the tokens that were not cached
}

// NewChat makes a chat in a sequence of the model, which may already have tokens. It returns a [data.Error] if
// neither the model nor the options have a template.
func NewChat(m *model.Model, q *infer.Sequence, pick *sample.Sampler, o ChatOptions) (*Chat, error) {
	if err := check(m, pick); err != nil {
		return nil, err
	}
	if err := checkSequence(m, q); err != nil {
		return nil, err
	}
	c := &Chat{m: m, sequence: q, pick: pick, template: o.Template, options: o, rendering: data.RenderOptions(m.Tokenizer, o.Variables)}
	if c.template == nil {
		var err error
		if c.template, err = data.ModelTemplate(m.Path, m.Tokenizer); err != nil {
			return nil, err
		}
	}
	c.rendering.Now = o.Now
	c.forms = c.template.Forms(&c.rendering)
	c.ends, c.reasoning = newReplyEnds(c), newReasoningMarks(c)
	return c, nil
}

func (c *Chat) checkMade() error {
	switch {
	case c == nil:
		return errors.New("the chat is nil")
	case c.m == nil:
		return fmt.Errorf("the chat is a zero value; NewChat makes one: %w", ggml.ErrZeroValue)
	}
	return nil
}

// Tokens returns the ids of a conversation as Reply computes it: rendered and encoded as in
// training, for the assistant to answer, or to continue its own last message.
func (c *Chat) Tokens(talk *chat.Conversation) ([]int32, error) {
	_, ids, err := c.render(talk)
	return ids, err
}

// render returns a conversation as text and as tokens.
func (c *Chat) render(talk *chat.Conversation) (prompt string, ids []int32, err error) {
	if err := c.checkMade(); err != nil {
		return "", nil, err
	}
	if talk == nil {
		return "", nil, errors.New("the conversation is nil")
	}
	o, n, render := c.rendering, len(talk.Messages), c.template.RenderPrompt
	if n > 0 && talk.Messages[n-1].Role() == "assistant" {
		o.ContinueFinalMessage, render = true, c.template.Render
	}
	rendered, err := render(c.forms.Convert(talk), &o)
	if err != nil {
		return "", nil, &RenderError{err}
	}
	ids = data.EncodeRendered(c.m.Tokenizer, rendered)
	if len(ids) == 0 {
		return "", nil, &RenderError{errors.New("the chat template renders no text for the conversation")}
	}
	return rendered.Text, ids, nil
}

// A RenderError is a conversation that the template cannot render; others can be answered.
type RenderError struct{ Err error }

// Error returns the template's message.
func (e *RenderError) Error() string { return fmt.Sprint(e.Unwrap()) }

// Unwrap returns the template's error, usually a [chat.Error].
func (e *RenderError) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.Err
}

// Reply writes the answer of [Chat.Stream] to w as it is generated, in whole characters. If an error such as a
// cancelled ctx ends the answer, Content is the answer so far.
func (c *Chat) Reply(ctx context.Context, w io.Writer, talk *chat.Conversation) (Reply, error) {
	if w == nil {
		return Reply{}, errNoWriter
	}
	tokens, reply := c.Stream(ctx, talk)
	err := write(w, tokens)
	return *reply, err
}

// replyEnds are texts and tokens that end a reply, beside the tokens that end every generation.
type replyEnds struct {
	tokens []int32
	texts  []string
}

func newReplyEnds(c *Chat) replyEnds {
	ends := replyEnds{texts: slices.DeleteFunc(slices.Clone(c.options.Stop), func(s string) bool { return s == "" })}
	closing := endOfTurn(c.template, c.rendering)
	if closing == "" {
		return ends
	}
	ids := c.m.Tokenizer.Encode(closing, tokenizer.EncodeOptions{ParseSpecial: true})
	if len(ids) > 0 && c.m.Tokenizer.IsSpecial(ids[0]) {
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
