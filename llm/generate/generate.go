// Package generate continues text with a language model, answers conversations, and embeds
// texts.
//
// # Text
//
// [Stream] continues a prompt in an [infer.Sequence], token by token; [Text] writes what comes
// to a writer, and [Texts] continues several prompts at once, in an [infer.Session] for so
// many. A [sample.Sampler] chooses the tokens. Samplers with equal seeds give equal text.
//
// # Conversations
//
// A [Chat] answers the last message of a [chat.Conversation], by the chat template of the
// model: [Chat.Stream] token by token, [Chat.Reply] to a writer. It computes of each
// conversation what its sequence does not have, reads special tokens in the mark-up of the
// template alone, and ends where the model ends its turn.
//
// # Embeddings
//
// [Embed] gives a vector for each of some texts.
//
// # Concurrency
//
// Sessions with their sequences, samplers and chats are used by one goroutine at a time. A
// model serves any number of them.
package generate

import (
	"cmp"
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
// has been given, or written.
var ErrTruncated = errors.New("the text was cut: the context is full")

// A Request is a text to continue.
type Request struct {
	Prompt  string
	W       io.Writer       // the continuation is written to it as it comes; not of [Stream]
	Sampler *sample.Sampler // for this text alone
	Options Options
	Context context.Context // ends this text alone; nil never does
}

// Options are the settings of a text.
type Options struct {
	Limit     *int // most tokens to generate; nil goes on until the context is full
	IgnoreEOG bool // do not let the model end the text
	LogProbs  bool // compute [Token.LogProb], which takes a pass over the vocabulary for each token
}

// Stats say of a generation what it took, and why it ended.
type Stats struct {
	Finish    Finish        // "" where the caller ended it, or an error that is not [ErrTruncated]
	Prompt    int           // tokens of the prompt
	PromptFor time.Duration // computing them, up to the first new token
	Generated int           // tokens
	// GeneratedFor is the time from the first new token to the last. The first
	// one costs no pass of its own: its logits are the prompt's.
	GeneratedFor time.Duration
}

// Finish is why a text or a [Reply] ended.
type Finish string

// Finishes have the names of OpenAI's API.
const (
	FinishStop   Finish = "stop"   // by the model, or a text of ChatOptions.Stop
	FinishLength Finish = "length" // by a limit of tokens, or because the context is full
)

// Text writes the model's continuation of a prompt as it comes into being: what [Stream] gives.
// When it stops, for whatever reason, what there is has been written.
func Text(ctx context.Context, m *model.Model, q *infer.Sequence, r Request) (Stats, error) {
	if r.W == nil {
		return Stats{}, errNoWriter
	}
	tokens, stats := stream(ctx, m, q, r)
	err := write(r.W, tokens)
	return *stats, err
}

var errNoWriter = errors.New("the writer is nil; io.Discard takes a text that nobody needs")

// check demands what a text is made of.
func check(m *model.Model, pick *sample.Sampler) error {
	if err := checkVocabulary(m); err != nil {
		return err
	}
	if err := m.Architecture().CheckLogits("it writes no text; llm.Embed and llm.Rerank use it"); err != nil {
		return err
	}
	if err := m.Architecture().CheckCausal("it writes no text token by token, and writing by diffusion is unsupported"); err != nil {
		return err
	}
	if pick == nil {
		return errors.New("the sampler is nil; sample.New makes one")
	}
	return nil
}

// checkSequence demands a sequence of the model.
func checkSequence(m *model.Model, q *infer.Sequence) error {
	if err := q.CheckOpen(); err != nil {
		return err
	}
	return checkSession(m, q.Session())
}

// checkSession demands a session of the model; what is wrong with one that is nil, a zero value or closed, it says itself.
func checkSession(m *model.Model, s *infer.Session) error {
	if of := s.Model(); of != nil && of != m {
		return fmt.Errorf("the session is of another model: of %s, and the text of %s", name(of), name(m))
	}
	return nil
}

// name returns the name of a model's file.
func name(m *model.Model) string { return cmp.Or(m.Path, "a model made in memory") }

func checkVocabulary(m *model.Model) error {
	if err := m.CheckOpen(); err != nil {
		return err
	}
	if m.Tokenizer == nil {
		return fmt.Errorf("%s has no vocabulary, so text means nothing to it", name(m))
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
