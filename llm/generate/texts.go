package generate

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
	"github.com/goggml/ggml/llm/sample"
)

// A Request is one of the texts that [Texts] continues.
type Request struct {
	Prompt  string
	W       io.Writer       // the continuation is streamed to it
	Sampler *sample.Sampler // of this text alone
	Options Options
	Context context.Context // ends this text alone; nil never does
}

// A Result is what became of a [Request]: what there is of the text has been
// written, also when there is an error.
type Result struct {
	Stats
	Err error // as of [Text]
}

// Texts continues several texts at once, as many as the session has room for; the next of
// them begins when one ends. Together they take little more time than one. What one of them
// has computed of a beginning that others share serves these too. Each text ends as one of
// [Text] does, and by its own context; ctx ends all.
func Texts(ctx context.Context, m *model.Model, s *infer.Session, requests []Request) []Result {
	t := &texts{m: m, session: s, requests: requests, results: make([]Result, len(requests))}
	defer t.close()
	var open []*generation
	var steps stepper
	for started := 0; started < len(requests) || len(open) > 0; {
		// Also when there is no room for any, which is then an error.
		for ; started < len(requests) && (s.Free() > 0 || len(open) == 0); started++ {
			g, err := t.start(ctx, started)
			if err != nil {
				t.results[started].Err = err
			} else if !g.ended {
				open = append(open, g)
			}
		}
		open = steps.step(ctx, open)
	}
	return t.results
}

type texts struct {
	m         *model.Model
	session   *infer.Session
	requests  []Request
	results   []Result
	sequences []*infer.Sequence // all that were made
}

// close ends the sequences that are open because a writer or a sampler panics.
func (t *texts) close() {
	for _, q := range t.sequences {
		q.Close()
	}
}

// start computes a prompt and draws the first token after it.
func (t *texts) start(ctx context.Context, index int) (*generation, error) {
	r := &t.requests[index]
	if err := check(t.m, r.W, r.Sampler); err != nil {
		return nil, err
	}
	tokens, err := promptTokens(t.m.Tokenizer, r.Prompt, true)
	if err != nil {
		return nil, err
	}
	q, err := t.session.NewSequence()
	if err != nil {
		return nil, err
	}
	t.sequences = append(t.sequences, q)
	ctx, cancel := joined(ctx, r.Context)
	defer cancel()
	began := time.Now()
	logits, _, err := q.Prefill(ctx, tokens)
	if err != nil {
		q.Close()
		return nil, fmt.Errorf("the prompt: %w", err)
	}
	g := newGeneration(t.m, r.W, r.Sampler, r.Options)
	g.ctx = r.Context
	g.onEnd = func() {
		q.Close()
		t.results[index].Stats, t.results[index].Err = g.flush()
	}
	g.begin(q, tokens, logits, began)
	return g, nil
}

// joined is cancelled with either of its parents; the second may be nil.
func joined(ctx, other context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if other == nil {
		return ctx, func() { cancel(nil) }
	}
	if err := context.Cause(other); err != nil {
		cancel(err) // at once; AfterFunc takes its time
	}
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
