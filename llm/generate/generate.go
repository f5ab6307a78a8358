// Package generate continues text with a language model, and answers conversations.
//
// # Text
//
// [Text] continues a prompt in an [infer.Sequence], and streams what comes to a writer;
// [Texts] continues several at once, in an [infer.Session] for so many. A [sample.Sampler]
// chooses the tokens. Samplers with equal seeds give equal text.
//
// # Conversations
//
// A [Chat] answers the last message of a [chat.Conversation], by the chat template of the
// model. It computes of each conversation what its sequence does not have, reads special
// tokens in the mark-up of the template alone, and ends where the model ends its turn.
//
// # Concurrency
//
// Sessions with their sequences, samplers and chats are used by one goroutine at a time. A
// model serves any number of them.
package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ErrTruncated is a text that ends because the context is full. What there is of it
// has been written.
var ErrTruncated = errors.New("the text was cut: the context is full")

// A Request is a text to continue.
type Request struct {
	Prompt  string
	W       io.Writer       // the continuation is streamed to it
	Sampler *sample.Sampler // of this text alone
	Options Options
	Context context.Context // ends this text alone; nil never does
}

// Options are the settings of a text.
type Options struct {
	Limit     *int // most tokens to generate; nil goes on until the context is full
	IgnoreEOG bool // do not let the model end the text
}

// Stats are the speed of a generation.
type Stats struct {
	Prompt    int           // tokens of the prompt
	PromptFor time.Duration // computing them, up to the first new token
	Generated int           // tokens
	// GeneratedFor is the time from the first new token to the last. The first
	// one costs no pass of its own: its logits are the prompt's.
	GeneratedFor time.Duration
}

// Text writes the model's continuation of a prompt as it comes into being, until the
// model ends the text, the limit is reached, or ctx is cancelled. The prompt follows what
// the sequence has, and the next text goes on after this one; if ctx is cancelled, after
// what the sequence then has of it. A prompt that begins with the text of BOS gets no
// second one. When it stops, for whatever reason, what there is has been written.
func Text(ctx context.Context, m *model.Model, q *infer.Sequence, r Request) (Stats, error) {
	g, err := newGeneration(ctx, m, q, &r)
	if err != nil {
		return Stats{}, err
	}
	g.run(ctx)
	g.keepLast(ctx)
	return g.flush()
}

// check demands what a text is made of.
func check(m *model.Model, w io.Writer, pick *sample.Sampler) error {
	if err := m.CheckOpen(); err != nil {
		return err
	}
	switch {
	case m.Tokenizer == nil:
		return fmt.Errorf("%s has no vocabulary, so text means nothing to it", m.Path)
	case w == nil:
		return errors.New("the writer is nil; io.Discard takes a text that nobody needs")
	case pick == nil:
		return errors.New("the sampler is nil; sample.New makes one")
	}
	return nil
}

// promptTokens encodes the prompt: BOS is in front where the model wants it, once, as in
// training, and the EOS that some models put behind a text is not.
func promptTokens(t *tokenizer.Tokenizer, prompt string, start bool) ([]int32, error) {
	tokens := t.Encode(prompt, tokenizer.EncodeOptions{ParseSpecial: true})
	if start && t.AddsBOS() && (len(tokens) == 0 || tokens[0] != t.BOS()) {
		tokens = slices.Insert(tokens, 0, t.BOS())
	}
	if len(tokens) == 0 {
		return nil, errors.New("the prompt is empty, and the model has no token that begins a text")
	}
	return tokens, nil
}
