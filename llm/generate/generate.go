// Package generate continues text with a language model, and answers conversations.
//
// # Text
//
// [Text] continues a prompt with an [infer.Session], and streams what comes to a writer;
// [Batch] continues several at once with an [infer.Batch]. A [sample.Sampler] chooses the
// tokens. Samplers with equal seeds give equal text.
//
// # Conversations
//
// A [Chat] answers the last message of a [chat.Conversation], by the chat template of the
// model. It computes of each conversation what the KV cache of its session does not have,
// reads special tokens in the mark-up of the template alone, and ends where the model ends
// its turn.
//
// # Concurrency
//
// Sessions, batches, samplers and chats are used by one goroutine at a time. A model serves
// any number of them.
package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

// Options are the settings of [Text].
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

// Text writes the model's continuation of a prompt to w as it comes into
// being, until the model ends the text, the limit is reached, or ctx is
// cancelled. The session keeps what it has seen: its next text goes on from
// there, without the last token if ctx is cancelled right after it. A prompt that begins with the
// text of BOS gets no second one. When it stops, for whatever reason, what there is has been written.
func Text(ctx context.Context, w io.Writer, m *model.Model, s *infer.Session, pick *sample.Sampler, prompt string, o Options) (Stats, error) {
	if err := check(m, w, pick); err != nil {
		return Stats{}, err
	}
	if s == nil {
		return Stats{}, errors.New("the session is nil")
	}
	tokens, err := promptTokens(m.Tokenizer, prompt, s.Pos() == 0)
	if err != nil {
		return Stats{}, err
	}
	g := newGeneration(m, w, pick, o)
	began := time.Now()
	logits, err := s.Decode(ctx, tokens)
	if err != nil {
		return Stats{}, fmt.Errorf("the prompt: %w", err)
	}
	g.begin(tokens, time.Since(began))
	err = g.stream(ctx, s, logits)
	return g.end(err)
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

// A generation is the text that follows a prompt.
type generation struct {
	m       *model.Model
	w       io.Writer
	pick    *sample.Sampler
	o       Options
	decoder *tokenizer.Decoder
	ends    []int32   // tokens that end the text, beside those that end every text
	first   time.Time // when the prompt had been computed
	stats   Stats
}

func newGeneration(m *model.Model, w io.Writer, pick *sample.Sampler, o Options) *generation {
	return &generation{m: m, w: w, pick: pick, o: o, decoder: m.Tokenizer.NewDecoder(tokenizer.DecodeOptions{Continuation: true})}
}

// begin notes that the prompt has been computed.
func (g *generation) begin(prompt []int32, took time.Duration) {
	g.pick.Accept(prompt...)
	g.stats.Prompt, g.stats.PromptFor = len(prompt), took
	g.first = time.Now()
}

// end writes what is left, and adds a failure in that to err.
func (g *generation) end(err error) (Stats, error) {
	_, writeErr := io.WriteString(g.w, g.decoder.Flush())
	if writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	return g.stats, err
}

func (g *generation) stream(ctx context.Context, s *infer.Session, logits []float32) error {
	for more := !g.atLimit(); more; {
		var token int32
		var err error
		if token, more, err = g.next(logits); err != nil {
			return err
		}
		err = s.DecodeInto(ctx, logits, []int32{token}) // the last one too: the next text follows it
		full := errors.Is(err, infer.ErrContextFull)
		switch {
		case !more && (full || ctx.Err() != nil):
			return nil // the text is complete
		case full:
			return ErrTruncated
		case err != nil:
			return err
		}
	}
	return nil
}

// atLimit reports whether the text has all the tokens that it may have.
func (g *generation) atLimit() bool { return g.o.Limit != nil && g.stats.Generated >= *g.o.Limit }

// next writes the next token, but not one that ends the text, and reports whether
// the text goes on after it.
func (g *generation) next(logits []float32) (token int32, more bool, err error) {
	if g.o.IgnoreEOG {
		g.excludeEOG(logits)
	}
	token, err = g.pick.Sample(logits)
	if err != nil || g.isEnd(token) {
		return token, false, err
	}
	g.stats.Generated++
	g.stats.GeneratedFor = time.Since(g.first)
	_, err = io.WriteString(g.w, g.decoder.Push(token))
	return token, err == nil && !g.atLimit(), err
}

func (g *generation) isEnd(token int32) bool {
	return g.m.Tokenizer.IsEOG(token) || slices.Contains(g.ends, token)
}

func (g *generation) excludeEOG(logits []float32) {
	for id := range logits {
		if g.m.Tokenizer.IsEOG(int32(id)) {
			logits[id] = float32(math.Inf(-1))
		}
	}
}
