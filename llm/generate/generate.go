// Package generate continues text with a language model, answers conversations, and embeds
// texts.
//
// # Text
//
// [Stream] continues a prompt in an [infer.Sequence], token by token; [Text] writes the text to
// a writer; [Texts] continues several prompts at once in an [infer.Session]. A [sample.Sampler]
// chooses the tokens. Samplers with equal seeds give equal text.
//
// # Conversations
//
// A [Chat] answers the last message of a [chat.Conversation], by the chat template of the
// model: [Chat.Stream] token by token, [Chat.Reply] to a writer. It computes only the tokens
// that its sequence does not have yet, reads special tokens only in the template's mark-up, and
// ends when the model ends its turn.
//
// # Embeddings
//
// [Embed] returns a vector for each text, [Rerank] a score for each document.
//
// # Concurrency
//
// A [Scheduler] computes the texts, answers and embeddings of any number of goroutines in one session. Otherwise,
// sessions with their sequences, samplers and chats are used by one goroutine at a time. A model serves any number of
// them.
package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/goggml/ggml/llm/grammar"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// ErrTruncated is the error of a text that ends because the context is full. The text so far
// has been returned or written.
var ErrTruncated = errors.New("the text was cut: the context is full")

// A Request is a text to continue.
type Request struct {
	Prompt  string
	W       io.Writer       // gets the continuation as it is generated; unused by [Stream]
	Sampler *sample.Sampler // of this text only
	Options Options
	Context context.Context // cancels this text only; nil: never
}

// Options are the settings of a text.
type Options struct {
	Limit     *int // most tokens to generate; nil: until the context is full
	IgnoreEOG bool // continue after the model's end of the text
	// Stop are texts that end the text and are left out of it.
	Stop     []string
	LogProbs bool // compute [Token.LogProb], a pass over the vocabulary for each token
	// TopLogProbs is the number of most likely tokens in [Token.Top]; 0: none.
	TopLogProbs int
	// Grammar is what the text must be, as a whole; nil: any text. The model can end it where the grammar does.
	Grammar *grammar.Grammar
	// Adapters are the text's, in a [Scheduler]; nil are the session's own. Elsewhere a sequence has its adapters.
	Adapters *infer.Adapters
}

// Stats are the counts and times of a generation, and why it ended.
type Stats struct {
	Finish    Finish        // "" if the caller ended it, or an error other than [ErrTruncated]
	Prompt    int           // tokens of the prompt
	PromptFor time.Duration // time to compute them, up to the first new token
	Generated int           // tokens
	// GeneratedFor is the time from the first new token to the last. The first
	// token needs no pass: its logits come with the prompt's.
	GeneratedFor time.Duration
}

// Finish is why a text or a [Reply] ended.
type Finish string

// Finishes have the names of OpenAI's API.
const (
	FinishStop   Finish = "stop"   // by the model, or a text of ChatOptions.Stop
	FinishLength Finish = "length" // by a limit of tokens, or because the context is full
)

// Text writes the texts of [Stream], the model's continuation of a prompt, as they are generated. When
// it returns, for any reason, everything so far has been written.
func Text(ctx context.Context, m *model.Model, q *infer.Sequence, r Request) (Stats, error) {
	if r.W == nil {
		return Stats{}, errNoWriter
	}
	tokens, stats := stream(ctx, m, q, r)
	err := write(r.W, tokens)
	return *stats, err
}

var errNoWriter = errors.New("the writer is nil; use io.Discard to drop the text")

// check requires a model with a vocabulary, and a sampler.
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

// checkSequence requires a sequence of the model.
func checkSequence(m *model.Model, q *infer.Sequence) error {
	if err := q.CheckOpen(); err != nil {
		return err
	}
	return checkSession(m, q.Session())
}

// checkSession requires a session of the model. A nil, zero or closed session reports its own error later.
func checkSession(m *model.Model, s *infer.Session) error {
	if of := s.Model(); of != nil && of != m {
		return fmt.Errorf("the session belongs to another model: to %s, not %s", name(of), name(m))
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
		return fmt.Errorf("%s has no vocabulary, so it cannot read text", name(m))
	}
	return nil
}

// promptTokens encodes the prompt as in training: with one BOS in front if the model has it, and
// without the EOS that some models put after a text.
func promptTokens(t *tokenizer.Tokenizer, prompt string, start bool) ([]int32, error) {
	tokens := t.Encode(prompt, tokenizer.EncodeOptions{ParseSpecial: true})
	if start && t.AddsBOS() && (len(tokens) == 0 || tokens[0] != t.BOS()) {
		tokens = slices.Insert(tokens, 0, t.BOS())
	}
	if len(tokens) == 0 {
		return nil, &EmptyError{"the prompt"}
	}
	return tokens, nil
}
