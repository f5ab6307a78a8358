package generate

import (
	"context"
	"errors"
	"io"
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
	w       io.Writer
	pick    *sample.Sampler
	o       Options
	decoder *tokenizer.Decoder
	ends    []int32         // tokens that end the text, beside those that end every text
	ctx     context.Context // ends this text alone; nil never does
	next    infer.StepInput // the token that was drawn last, and the logits before it
	drawn   bool
	first   time.Time // when the prompt had been computed
	stats   Stats

	ended  bool
	finish Finish // "" where an error ended it
	err    error
	onEnd  func() // nil for nothing
}

func newGeneration(m *model.Model, w io.Writer, pick *sample.Sampler, o Options) *generation {
	return &generation{m: m, w: w, pick: pick, o: o, decoder: m.Tokenizer.NewDecoder(tokenizer.DecodeOptions{Continuation: true})}
}

// begin draws the first token after the prompt, which ends the sequence and has been computed
// since then.
func (g *generation) begin(q *infer.Sequence, prompt []int32, logits []float32, since time.Time) {
	g.pick.Accept(prompt...)
	g.first = time.Now()
	g.stats.Prompt, g.stats.PromptFor = len(prompt), g.first.Sub(since)
	g.next = infer.StepInput{Sequence: q, Logits: logits}
	if g.atLimit() {
		g.end(FinishLength, nil)
		return
	}
	g.draw()
}

// run lets texts of one session go on until all have ended.
func run(ctx context.Context, open ...*generation) {
	for s := (stepper{}); len(open) > 0; {
		open = s.step(ctx, open)
	}
}

// A stepper lets texts go on together, a token of each at a time.
type stepper struct{ next []infer.StepInput }

// step computes the last token of each text, draws the one that follows it, and returns the
// texts that go on.
func (s *stepper) step(ctx context.Context, texts []*generation) []*generation {
	texts = going(texts, (*generation).endEarly)
	if len(texts) == 0 {
		return nil
	}
	s.next = s.next[:0]
	for _, g := range texts {
		s.next = append(s.next, g.next)
	}
	err := texts[0].next.Sequence.Session().Step(ctx, s.next)
	return going(texts, func(g *generation) {
		if err != nil {
			g.end("", err)
			return
		}
		g.draw()
	})
}

// going are the texts that f, which is called with each, does not end.
func going(texts []*generation, f func(g *generation)) []*generation {
	return slices.DeleteFunc(texts, func(g *generation) bool {
		f(g)
		return g.ended
	})
}

// endEarly ends a text that cannot go on.
func (g *generation) endEarly() {
	switch q := g.next.Sequence; {
	case g.ctx != nil && g.ctx.Err() != nil:
		g.end("", context.Cause(g.ctx))
	case q.Len() == q.Context():
		g.end(FinishLength, ErrTruncated)
	}
}

func (g *generation) end(finish Finish, err error) {
	g.ended, g.finish, g.err = true, finish, err
	if g.onEnd != nil {
		g.onEnd()
	}
}

// draw writes the next token, but not one that ends the text.
func (g *generation) draw() {
	logits := g.next.Logits
	if g.o.IgnoreEOG {
		g.excludeEOG(logits)
	}
	token, err := g.pick.Sample(logits)
	if err != nil {
		g.end("", err)
		return
	}
	g.next.Token, g.drawn = token, true
	if g.isEnd(token) {
		g.end(FinishStop, nil)
		return
	}
	g.stats.Generated++
	g.stats.GeneratedFor = time.Since(g.first)
	_, err = io.WriteString(g.w, g.decoder.Push(token))
	switch {
	case err != nil:
		g.end("", err)
	case g.atLimit():
		g.end(FinishLength, nil)
	}
}

// atLimit reports whether the text has all the tokens that it may have.
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

// keepLast computes the last token of a text that is complete, so that another one can follow
// it. It remains complete where that token has no room, or ctx is cancelled.
func (g *generation) keepLast(ctx context.Context) {
	if g.err != nil || !g.drawn {
		return
	}
	err := g.next.Sequence.DecodeInto(ctx, g.next.Logits, []int32{g.next.Token})
	if !errors.Is(err, infer.ErrContextFull) && ctx.Err() == nil {
		g.err = err
	}
}

// flush writes what is left, and adds a failure in that to the generation's.
func (g *generation) flush() (Stats, error) {
	_, err := io.WriteString(g.w, g.decoder.Flush())
	if err != nil {
		err = errors.Join(g.err, err)
	} else {
		err = g.err
	}
	return g.stats, err
}
