package generate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/goggml/ggml/internal/counted"
	"github.com/goggml/ggml/llm/chat"
	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/sample"
)

// A text is a job that generates text.
type text struct {
	ctx      context.Context // of the request, and of the scheduler
	g        *generation
	tokens   []int32 // of the prompt
	adapters *infer.Adapters
	sequence *infer.Sequence
	cached   int // tokens of the prompt that the session had
	chunk    int // tokens of the prompt that the next pass computes
	began    time.Time
	logits   []float32
	fits     bool // a text that fills the context is not an error
	out      feed
}

// Stream is [Stream] in a sequence of the scheduler. The request's sampler must not be in use elsewhere.
func (s *Scheduler) Stream(ctx context.Context, r Request) (iter.Seq2[Token, error], *Stats) {
	stats := new(Stats)
	return func(yield func(Token, error) bool) {
		*stats = Stats{}
		ctx, cancel, err := s.begins(ctx, r.Context)
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		defer cancel()
		t, err := s.newText(r)
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		s.each(ctx, t, func(e event) bool {
			*stats = e.stats
			return e.end && e.err == nil || yield(e.token, e.err)
		})
	}, stats
}

// Chat is [Chat.Stream] in a sequence of the scheduler, with options of this answer. The sampler must not be in use
// elsewhere.
func (s *Scheduler) Chat(ctx context.Context, talk *chat.Conversation, pick *sample.Sampler, o ChatOptions) (iter.Seq2[Token, error], *Reply) {
	reply := new(Reply)
	return func(yield func(Token, error) bool) {
		*reply = Reply{}
		ctx, cancel, err := s.begins(ctx, nil)
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		defer cancel()
		f, t, prompt, err := s.newAnswer(talk, pick, o)
		if err != nil {
			yield(Token{ID: -1}, err)
			return
		}
		read := replyReader{parts: f.reader(prompt, talk), marked: f.marked}
		s.each(ctx, t, func(e event) bool {
			reply.Cached, reply.Stats = e.cached, e.stats
			read.write(e.token, e.end, reply)
			return e.end && e.err == nil || yield(e.token, e.err)
		})
	}, reply
}

// begins returns the context of a request, which ends with the scheduler too.
func (s *Scheduler) begins(ctx, other context.Context) (context.Context, context.CancelFunc, error) {
	if err := s.checkMade(); err != nil {
		return nil, nil, err
	}
	if ctx == nil {
		return nil, nil, errors.New("the context.Context is nil")
	}
	first, cancelFirst := joined(ctx, other)
	both, cancelBoth := joined(first, s.ctx)
	return both, func() { cancelBoth(); cancelFirst() }, nil
}

func (s *Scheduler) newText(r Request) (*text, error) {
	if r.W != nil {
		return nil, errors.New("the request has a writer, which only Text uses; Stream yields the tokens to its caller")
	}
	if err := check(s.m, r.Sampler); err != nil {
		return nil, err
	}
	tokens, err := promptTokens(s.m.Tokenizer, r.Prompt, true)
	if err != nil {
		return nil, err
	}
	t := &text{tokens: tokens, adapters: r.Options.Adapters}
	if t.g, err = newContinuation(s.m, &r, t.take); err != nil {
		return nil, err
	}
	return t, s.checkFits("the prompt", tokens)
}

// newAnswer returns the text of an answer, its format and its rendered prompt.
func (s *Scheduler) newAnswer(talk *chat.Conversation, pick *sample.Sampler, o ChatOptions) (*format, *text, string, error) {
	if err := check(s.m, pick); err != nil {
		return nil, nil, "", err
	}
	f, err := s.formatOf(o)
	if err != nil {
		return nil, nil, "", err
	}
	prompt, tokens, err := f.render(talk)
	if err != nil {
		return nil, nil, "", err
	}
	t := &text{tokens: tokens, adapters: o.Adapters, fits: true}
	if t.g, err = f.newReply(prompt, talk, pick, t.take); err != nil {
		return nil, nil, "", err
	}
	return f, t, prompt, s.checkFits("the conversation", tokens)
}

// Prompt returns the text that a conversation is rendered to for an answer with the options.
func (s *Scheduler) Prompt(talk *chat.Conversation, o ChatOptions) (string, error) {
	if err := s.checkMade(); err != nil {
		return "", err
	}
	f, err := s.formatOf(o)
	if err != nil {
		return "", err
	}
	prompt, _, err := f.render(talk)
	return prompt, err
}

// formatOf returns the format of an answer.
func (s *Scheduler) formatOf(o ChatOptions) (*format, error) {
	if o.Template != nil {
		return newFormat(s.m, o)
	}
	usual, err := s.format()
	if err != nil {
		return nil, err
	}
	if len(o.Variables) > 0 {
		o.Template = usual.template
		return newFormat(s.m, o)
	}
	f := *usual
	f.options, f.rendering.Now = o, o.Now
	return &f, nil
}

func (s *Scheduler) checkFits(what string, tokens []int32) error {
	if n := s.session.Context(); len(tokens) > n {
		return fmt.Errorf("%w: %s has %s, but the context holds %d", infer.ErrContextFull, what, counted.Of(len(tokens), "token"), n)
	}
	return nil
}

// each submits a text and calls f with its events, until it returns false.
func (s *Scheduler) each(ctx context.Context, t *text, f func(event) bool) {
	t.ctx, t.g.ctx, t.g.stats, t.out.ready = ctx, ctx, new(Stats), make(chan struct{}, 1)
	if err := s.submit(t); err != nil {
		t.fail(err)
	}
	t.out.each(f)
}

func (t *text) context() context.Context { return t.ctx }

func (t *text) hasRoom(s *Scheduler) bool { return s.hasRoom() }

// begin takes a sequence.
func (t *text) begin(s *Scheduler) {
	var err error
	if t.sequence, err = s.sequence(t.tokens, t.adapters); err != nil {
		t.fail(err)
		return
	}
	t.began, t.logits = time.Now(), make([]float32, s.m.Config().Vocab)
	if err := t.reuse(); err != nil {
		t.g.end("", err)
		s.finish(t)
		return
	}
	s.leaveSpare()
	s.prompts = append(s.prompts, t)
}

// reuse takes the states of the prompt's first tokens from the session, except the last token's, whose logits are needed.
func (t *text) reuse() error {
	had := t.sequence.Len()
	if t.cached == 0 {
		had = 0
	}
	n, err := t.sequence.Reuse(t.tokens[:len(t.tokens)-1])
	t.cached += max(0, n-had)
	return err
}

// left returns the number of tokens of the prompt that are not computed.
func (t *text) left() int { return len(t.tokens) - t.sequence.Len() }

// waitsFor reports whether the next chunk of another prompt has at least half of this one's rest, which can then be reused.
func (t *text) waitsFor(other *text) bool {
	if t.adapters != other.adapters {
		return false
	}
	same, end := 0, min(len(t.tokens), other.sequence.Len()+other.chunk)
	for same < end && t.tokens[same] == other.tokens[same] {
		same++
	}
	return 2*(same-t.sequence.Len()) >= t.left()
}

// input is the next chunk of the prompt.
func (t *text) input() infer.StepInput {
	at := t.sequence.Len()
	end := at + t.chunk
	return infer.StepInput{Sequence: t.sequence, Before: t.tokens[at : end-1], Token: t.tokens[end-1], Logits: t.logits}
}

// take passes a token on.
func (t *text) take(token Token) error {
	t.out.push(event{token: token, stats: *t.g.stats, cached: t.cached})
	return nil
}

// end reports the end of the text.
func (t *text) end() {
	e := event{token: Token{ID: -1}, err: t.g.err, end: true, stats: *t.g.stats, cached: t.cached}
	if t.fits && e.err == ErrTruncated {
		e.err = nil
	}
	if t.g.err != nil {
		e.token.Text, _ = t.g.rest()
	}
	t.out.push(e)
}

// fail ends a text that has not begun.
func (t *text) fail(err error) {
	t.g.end("", err)
	t.end()
}
