package generate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
	"github.com/goggml/ggml/llm/tokenizer"
)

// A generation is the text that follows a prompt in a sequence.
type generation struct {
	m       *model.Model
	pick    *sample.Sampler
	o       Options
	decoder *tokenizer.Decoder
	stop    stopTexts
	take    func(Token) error // gets each token; its error ends the text
	ends    []int32           // tokens that end this text, beside the tokens that end every text
	ctx     context.Context   // cancels this text only; nil: never
	next    infer.StepInput   // the last drawn token, and the logits that it was drawn from
	drawn   bool
	at      int       // tokens of the sequence when it was drawn
	first   time.Time // when the prompt was computed
	stats   *Stats

	ended bool
	err   error
	onEnd func() // may be nil

	constraint *constraint // nil: any text
}

// newGeneration computes the prompt of a request after the sequence's tokens.
func newGeneration(ctx context.Context, m *model.Model, q *infer.Sequence, r *Request, stats *Stats, take func(Token) error) (*generation, error) {
	if err := check(m, r.Sampler); err != nil {
		return nil, err
	}
	if err := checkSequence(m, q); err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, errors.New("the context.Context is nil")
	}
	if r.Options.Adapters != nil {
		return nil, errAdapters
	}
	prompt, err := promptTokens(m.Tokenizer, r.Prompt, q.Len() == 0)
	if err != nil {
		return nil, err
	}
	g, err := newContinuation(m, r, take)
	if err != nil {
		return nil, err
	}
	g.ctx, g.stats = r.Context, stats
	ctx, cancel := joined(ctx, r.Context)
	defer cancel()
	if _, err := g.prefill(ctx, q, q.Tokens(), prompt); err != nil {
		return nil, fmt.Errorf("the prompt: %w", err)
	}
	return g, nil
}

var errAdapters = errors.New("adapters in options are for texts of a Scheduler; Sequence.SetAdapters gives them to a sequence")

// newContinuation returns the text of a request, before its prompt is computed.
func newContinuation(m *model.Model, r *Request, take func(Token) error) (*generation, error) {
	g := &generation{m: m, pick: r.Sampler, o: r.Options, take: take, stop: stopTexts{stop: notEmpty(r.Options.Stop)}}
	g.decoder = m.Tokenizer.NewDecoder(tokenizer.DecodeOptions{Continuation: true})
	return g, g.constrain(r.Options.Grammar)
}

// prefill makes the sequence consist of the tokens before and a prompt.
func (g *generation) prefill(ctx context.Context, q *infer.Sequence, before, prompt []int32) (cached int, err error) {
	began := time.Now()
	logits, cached, err := q.Prefill(ctx, slices.Concat(before, prompt))
	if err != nil {
		return 0, err
	}
	g.start(q, logits, prompt, began)
	return cached, nil
}

// start begins the text after a prompt that has been computed, with the logits of the next token.
func (g *generation) start(q *infer.Sequence, logits []float32, prompt []int32, began time.Time) {
	g.pick.Accept(prompt...)
	g.first = time.Now()
	g.stats.Prompt, g.stats.PromptFor = len(prompt), g.first.Sub(began)
	g.next = infer.StepInput{Sequence: q, Logits: logits}
}

// joined returns a context that ends with either of its parents; the second may be nil.
func joined(ctx, other context.Context) (context.Context, context.CancelFunc) {
	if other == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if err := context.Cause(other); err != nil {
		cancel(err) // at once; AfterFunc takes its time
	}
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// run draws a text until it ends.
func (g *generation) run(ctx context.Context) {
	alone := []*generation{g}
	var s stepper
	for g.draw(); !g.ended; {
		s.step(ctx, alone)
	}
}

// A stepper continues texts of one session together, one token of each at a time.
type stepper struct{ next []infer.StepInput }

// step computes the last token of each text, draws the one that follows it, and returns the
// texts that have not ended.
func (s *stepper) step(ctx context.Context, texts []*generation) []*generation {
	texts = going(texts, (*generation).endEarly)
	if len(texts) == 0 {
		return nil
	}
	err := s.compute(ctx, texts)
	return going(texts, func(g *generation) {
		if err != nil {
			g.end("", err)
			return
		}
		g.draw()
	})
}

// compute computes the last token of each text.
func (s *stepper) compute(ctx context.Context, texts []*generation) error {
	s.next = s.next[:0]
	for _, g := range texts {
		s.next = append(s.next, g.next)
	}
	return texts[0].next.Sequence.Session().Step(ctx, s.next)
}

// going calls f with each text and returns the texts that have not ended.
func going(texts []*generation, f func(g *generation)) []*generation {
	return slices.DeleteFunc(texts, func(g *generation) bool {
		f(g)
		return g.ended
	})
}

// endEarly ends a text whose context is cancelled or that cannot continue.
func (g *generation) endEarly() {
	switch {
	case g.ctx != nil && g.ctx.Err() != nil:
		g.end("", context.Cause(g.ctx))
	case g.isElsewhere():
		g.end("", errElsewhere)
	}
}

var errElsewhere = errors.New("the sequence was changed while a text was generated in it; give each text its own sequence")

// isElsewhere reports whether anything but this text has continued or rewound its sequence.
func (g *generation) isElsewhere() bool { return g.next.Sequence.Len() != g.at }

func (g *generation) end(finish Finish, err error) {
	g.ended, g.stats.Finish, g.err = true, finish, err
	if g.onEnd != nil {
		g.onEnd()
	}
}

// draw draws the next token, unless the text is at its limit.
func (g *generation) draw() {
	if g.atLimit() {
		g.end(FinishLength, nil)
		return
	}
	token, complete, err := g.sample()
	switch {
	case err != nil:
		g.end("", err)
		return
	case complete:
		token = Token{ID: -1}
		token.Text, _ = g.rest()
		if token.Text != "" {
			err = g.take(token)
		}
		g.end(FinishStop, err)
		return
	}
	g.next.Token, g.drawn, g.at = token.ID, true, g.next.Sequence.Len()
	finish, err := g.decode(&token)
	if taken := g.take(token); taken != nil {
		g.end("", taken)
	} else if finish != "" {
		g.end(finish, err)
	}
}

// sample draws a token from the logits. complete is as of pickToken.
func (g *generation) sample() (t Token, complete bool, err error) {
	logits, all := g.next.Logits, 0.0
	var top []LogProb
	if g.o.LogProbs || g.o.TopLogProbs > 0 {
		all = logSumExp(logits)
		top = mostLikely(logits, all, g.o.TopLogProbs)
	}
	if g.o.IgnoreEOG {
		g.excludeEOG(logits)
	}
	id, complete, err := g.pickToken(logits)
	if err != nil {
		if slices.ContainsFunc(logits, func(l float32) bool { return l != l || l > math.MaxFloat32 }) {
			err = g.m.Layout().BlameServers(err)
		}
		return Token{}, false, err
	}
	t = Token{ID: id, Top: top}
	if g.o.LogProbs {
		t.LogProb = float64(logits[id]) - all
	}
	return t, complete, nil
}

// logSumExp returns log Σ exp(logit). The logarithm of a probability is its logit less this.
func logSumExp(logits []float32) float64 {
	top, sum := float64(slices.Max(logits)), 0.0
	for _, l := range logits {
		sum += math.Exp(float64(l) - top)
	}
	return top + math.Log(sum)
}

// mostLikely returns the n most likely tokens, the best one first; of equal ones, the one with the smaller ID.
func mostLikely(logits []float32, all float64, n int) (top []LogProb) {
	if n <= 0 {
		return nil
	}
	for id, l := range logits {
		p := LogProb{int32(id), float64(l) - all}
		if len(top) == n && p.LogProb <= top[n-1].LogProb {
			continue
		}
		i, _ := slices.BinarySearchFunc(top, p, func(a, p LogProb) int { return cmp.Or(-cmp.Compare(a.LogProb, p.LogProb), -1) })
		top = slices.Insert(top[:min(len(top), n-1)], min(i, n-1), p)
	}
	return top
}

// decode sets the text of a token. A token that ends the text gets all remaining text, and the
// reason is returned.
func (g *generation) decode(t *Token) (finish Finish, err error) {
	if g.isEnd(t.ID) {
		finish = FinishStop
	} else {
		g.stats.Generated++
		g.stats.GeneratedFor = time.Since(g.first)
		var stopped bool
		text := g.decoder.Push(t.ID)
		t.Text, stopped = g.stop.push(text)
		if !g.m.Tokenizer.IsText(t.ID) { // the last of the text, if it is shown
			t.markFrom, t.markTo = g.stop.total-min(len(text), len(g.m.Tokenizer.Piece(t.ID))), g.stop.total
		}
		if stopped {
			return FinishStop, nil
		}
		switch q := g.next.Sequence; {
		case g.atLimit():
			finish = FinishLength
		case q.Len() == q.Context(): // no room for this token in the sequence
			finish, err = FinishLength, ErrTruncated
		default:
			return "", nil
		}
	}
	rest, stopped := g.rest()
	t.Text += rest
	if stopped {
		return FinishStop, nil
	}
	return finish, err
}

// rest returns the text that was held back, up to a stop text.
func (g *generation) rest() (text string, stopped bool) { return g.stop.flush(g.decoder.Flush()) }

// atLimit reports whether the text has as many tokens as it may have.
func (g *generation) atLimit() bool { return g.o.Limit != nil && g.stats.Generated >= *g.o.Limit }

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

// keepLast computes the last token of a text that ended without an error, so that another text can
// follow it. The text is complete even if the token has no room or ctx is cancelled.
func (g *generation) keepLast(ctx context.Context) {
	if g.err != nil && g.err != errBroken || !g.drawn || g.isElsewhere() {
		return
	}
	err := g.next.Sequence.DecodeInto(ctx, g.next.Logits, []int32{g.next.Token})
	if g.err == nil && !errors.Is(err, infer.ErrContextFull) && ctx.Err() == nil {
		g.err = err
	}
}
