package generate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// A Token is a generated token.
type Token struct {
	ID int32
	// Text is the text that the token completes, in whole characters: a character of several
	// tokens comes with its last one, and text that may begin a stop text comes once it is known
	// not to. The texts of all tokens are the whole text.
	Text string
	// LogProb is the natural logarithm of the token's probability by the model's logits, before
	// penalties, filters and temperature of the sampler. It is 0 unless Options.LogProbs or
	// ChatOptions.LogProbs is set.
	LogProb float64
	// Top are the most likely tokens before penalties, filters and temperature, the best one first, as many as
	// TopLogProbs of the options.
	Top []LogProb

	// The text of a token of mark-up is the bytes from markFrom to markTo of the whole text.
	markFrom, markTo int
}

// A LogProb is a token with the natural logarithm of its probability.
type LogProb struct {
	ID      int32
	LogProb float64
}

// errBroken means that the caller has left the loop over tokens.
var errBroken = errors.New("the loop has ended")

// Stream yields the tokens of the model's continuation of a prompt as they are generated, until
// the model ends the text, the limit is reached, or ctx is cancelled. The token by which the model
// ends the text comes last and has no text of its own. An error, such as [ErrTruncated], comes
// last with the ID -1 and the text that was held back.
//
// The prompt follows the sequence's tokens, and the next text follows this one. If the caller
// leaves the loop, the next text follows the token at which it left; if ctx is cancelled, the
// tokens that the sequence then has. A prompt that begins with the text of BOS gets no second one.
//
// Nothing is computed before the loop, and the loop updates the statistics. Each loop appends the
// prompt again.
func Stream(ctx context.Context, m *model.Model, q *infer.Sequence, r Request) (iter.Seq2[Token, error], *Stats) {
	if r.W != nil {
		return failed(errors.New("the request has a writer, which only Text uses; Stream yields the tokens to its caller")), new(Stats)
	}
	return stream(ctx, m, q, r)
}

func stream(ctx context.Context, m *model.Model, q *infer.Sequence, r Request) (iter.Seq2[Token, error], *Stats) {
	stats := new(Stats)
	return func(yield func(Token, error) bool) {
		*stats = Stats{}
		g, err := newGeneration(ctx, m, q, &r, stats, taker(yield))
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		g.run(ctx)
		g.keepLast(ctx)
		g.fail(yield)
	}, stats
}

// Stream yields the tokens of the model's answer to a conversation as they are generated. The Content
// of the reply grows with them and is complete at the end; it excludes texts that end the answer. For
// the next turn, append Content to the conversation as a message of the assistant, then the user's
// message. If the last message is the assistant's, the reply continues it.
//
// Errors are yielded as in [Stream]. A conversation that does not fit the context is [infer.ErrContextFull]; an answer
// that reaches the end of the context is not an error, and its Finish is FinishLength. If the caller leaves the loop,
// Content is the text of the tokens so far.
//
// Nothing is computed before the loop. Each loop gives another answer.
func (c *Chat) Stream(ctx context.Context, talk *chat.Conversation) (iter.Seq2[Token, error], *Reply) {
	reply := new(Reply)
	return func(yield func(Token, error) bool) {
		if err := c.acquire(); err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		defer c.access.Release()
		*reply = Reply{}
		read := replyReader{marked: c.marked}
		show := func(t Token, err error) bool {
			read.write(t, err != nil, reply)
			return yield(t, err)
		}
		g, prompt, err := c.begin(ctx, talk, reply, taker(show))
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		read.parts = c.reader(prompt, talk)
		defer read.write(Token{}, true, reply)
		g.run(ctx) // the last token is not computed: the template usually decides what follows it
		if g.err != ErrTruncated {
			g.fail(show)
		}
	}, reply
}

// A replyReader collects the text of a reply.
type replyReader struct {
	content strings.Builder
	parts   *chat.AnswerReader
	marked  bool    // marks are tokens
	marks   []Token // whose text is to come
}

func (r *replyReader) write(t Token, end bool, reply *Reply) {
	if t.markFrom < t.markTo {
		r.marks = append(r.marks, t)
	}
	r.writeParts(t.Text)
	if end {
		r.parts.End()
	}
	parts := r.parts.Answer()
	reply.Content, reply.Reasoning, reply.Answer, reply.Calls = r.content.String(), parts.Reasoning, parts.Text, parts.Calls
}

// writeParts writes a text to the reader of parts, tokens of mark-up apart from text that may spell them.
func (r *replyReader) writeParts(text string) {
	at := r.content.Len()
	r.content.WriteString(text)
	if !r.marked {
		r.parts.Write(text)
		return
	}
	for len(r.marks) > 0 && r.marks[0].markFrom < at+len(text) {
		from, to := max(0, r.marks[0].markFrom-at), r.marks[0].markTo-at
		r.parts.WriteText(text[:from])
		if to > len(text) { // the rest is held back
			r.parts.Write(text[from:])
			return
		}
		r.parts.Write(text[from:to])
		at, text, r.marks = at+to, text[to:], r.marks[1:]
	}
	r.parts.WriteText(text)
}

// acquire holds the chat for an answer.
func (c *Chat) acquire() error {
	if err := c.checkMade(); err != nil {
		return err
	}
	return c.access.Acquire("Chat.Stream", "Chat")
}

// begin computes a conversation, so that its reply can follow.
func (c *Chat) begin(ctx context.Context, talk *chat.Conversation, reply *Reply, take func(Token) error) (_ *generation, prompt string, err error) {
	if err := check(c.m, c.pick); err != nil {
		return nil, "", err
	}
	prompt, ids, err := c.render(talk)
	if err != nil {
		return nil, "", err
	}
	if len(ids) > c.sequence.Context() {
		return nil, "", fmt.Errorf("%w: the conversation has %s, but the context holds %d", infer.ErrContextFull, counted.Of(len(ids), "token"), c.sequence.Context())
	}
	g, err := c.newReply(prompt, talk, c.pick, take)
	if err != nil {
		return nil, "", err
	}
	g.stats = &reply.Stats
	reply.Cached, err = g.prefill(ctx, c.sequence, nil, ids)
	return g, prompt, err
}

// taker passes tokens to a loop.
func taker(yield func(Token, error) bool) func(Token) error {
	return func(t Token) error {
		if !yield(t, nil) {
			return errBroken
		}
		return nil
	}
}

// fail ends a loop with the error of the text, if any, and the text that was held back.
func (g *generation) fail(yield func(Token, error) bool) {
	if g.err != nil && g.err != errBroken {
		rest, _ := g.rest()
		yield(Token{ID: -1, Text: rest}, g.err)
	}
}

// failed returns the tokens of a text that cannot begin: its error.
func failed(err error) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) { yield(Token{ID: -1}, err) }
}

// write writes the texts of tokens, up to an error.
func write(w io.Writer, tokens iter.Seq2[Token, error]) error {
	for t, err := range tokens {
		written := writeText(w, t)
		switch {
		case err == nil && written == nil:
			continue
		case written == nil:
			return err
		case err == nil:
			return written
		}
		return errors.Join(err, written)
	}
	return nil
}

func writeText(w io.Writer, t Token) error {
	if t.Text == "" {
		return nil
	}
	_, err := io.WriteString(w, t.Text)
	return err
}
