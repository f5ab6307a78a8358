package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/exclusive"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
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
	// ShowSpecial writes control tokens of a reply as their texts. If the conversation has tools, or the template's
	// reasoning mark-up is control tokens, they are written anyway.
	ShowSpecial bool
	// LogProbs computes [Token.LogProb], TopLogProbs [Token.Top]; see [Options].
	LogProbs    bool
	TopLogProbs int
	// Grammar is what an answer must be, as a whole, unless it consists of tool calls; nil: any text. Reasoning that the template
	// begins is free.
	Grammar *grammar.Grammar
	// Calls are for conversations with tools.
	Calls CallOptions
	// Adapters are the answer's, in a [Scheduler]; nil are the session's own. Elsewhere a sequence has its adapters.
	Adapters *infer.Adapters
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
	format
	sequence *infer.Sequence
	pick     *sample.Sampler
	access   exclusive.Access
}

// A Reply is an answer of the model.
type Reply struct {
	// Content is the text, without the end mark. Reasoning and tool calls are in it as
	// the model writes them. It is valid UTF-8: U+FFFD replaces invalid bytes.
	Content string
	// Reasoning, Answer and Calls are the parts of Content: the text inside the template's reasoning mark-up, the text
	// without that and without tool calls, and the calls of the conversation's tools if the template's form of calls is
	// known ([chat.AnswerForm]). They grow with Content; text that may begin mark-up is added once it is known not to.
	Reasoning, Answer string
	Calls             []chat.ToolCall
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
	if o.Adapters != nil {
		return nil, errAdapters
	}
	f, err := newFormat(m, o)
	if err != nil {
		return nil, err
	}
	return &Chat{format: *f, sequence: q, pick: pick}, nil
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
	if err := c.checkMade(); err != nil {
		return nil, err
	}
	_, ids, err := c.render(talk)
	return ids, err
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
