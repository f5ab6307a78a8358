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
)

// A Request is one of the texts that [Batch] continues.
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

// Batch continues several texts at once, as many as b has room for; the next of
// them begins when one ends. Together they take little more time than one. b has
// no other sequences meanwhile. Each text ends as one of [Text] does, and by its
// own context; ctx ends all.
func Batch(ctx context.Context, m *model.Model, b *infer.Batch, requests []Request) []Result {
	t := &batch{m: m, sequences: b, requests: requests, results: make([]Result, len(requests))}
	if b == nil {
		for i := range t.results {
			t.results[i].Err = errors.New("the batch is nil")
		}
		return t.results
	}
	defer func() { // when a writer or a sampler panics
		for _, x := range t.open {
			_ = x.sequence.Close()
		}
	}()
	for started := 0; started < len(requests) || len(t.open) > 0; {
		// Also when there is no room for any, which is then an error.
		for ; started < len(requests) && (b.Free() > 0 || len(t.open) == 0); started++ {
			t.start(ctx, started)
		}
		t.step(ctx)
	}
	return t.results
}

// A batch is the texts that are being continued.
type batch struct {
	m         *model.Model
	sequences *infer.Batch
	requests  []Request
	results   []Result
	open      []*activeRequest
}

// An activeRequest has a token that its sequence goes on with.
type activeRequest struct {
	*generation
	index    int // of the request
	sequence *infer.Sequence
	token    int32
}

func (t *batch) start(ctx context.Context, index int) {
	r := &t.requests[index]
	if err := t.tryStart(ctx, r, index); err != nil {
		t.results[index].Err = err
	}
}

func (t *batch) tryStart(ctx context.Context, r *Request, index int) error {
	if err := check(t.m, r.W, r.Sampler); err != nil {
		return err
	}
	tokens, err := promptTokens(t.m.Tokenizer, r.Prompt, true)
	if err != nil {
		return err
	}
	ctx, cancel := joined(ctx, r.Context)
	defer cancel()
	began := time.Now()
	sequence, logits, err := t.sequences.Start(ctx, tokens)
	if err != nil {
		return fmt.Errorf("the prompt: %w", err)
	}
	x := &activeRequest{generation: newGeneration(t.m, r.W, r.Sampler, r.Options), index: index, sequence: sequence}
	x.begin(tokens, time.Since(began))
	t.open = append(t.open, x)
	if x.atLimit() {
		t.end(x, nil)
		return nil
	}
	t.advance(x, logits)
	return nil
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

// step computes a token of each open text.
func (t *batch) step(ctx context.Context) {
	for _, x := range t.all() {
		own := t.requests[x.index].Context
		switch {
		case own != nil && own.Err() != nil:
			t.end(x, context.Cause(own))
		case x.sequence.Len() == t.sequences.Context():
			t.end(x, ErrTruncated)
		}
	}
	if len(t.open) == 0 {
		return
	}
	var next []infer.StepInput
	for _, x := range t.open {
		next = append(next, infer.StepInput{Sequence: x.sequence, Token: x.token})
	}
	logits, err := t.sequences.Step(ctx, next)
	for i, x := range t.all() {
		if err != nil {
			t.end(x, err)
			continue
		}
		t.advance(x, logits[i])
	}
}

// advance takes the next token of a text, or ends it.
func (t *batch) advance(x *activeRequest, logits []float32) {
	token, more, err := x.next(logits)
	if err != nil || !more {
		t.end(x, err)
		return
	}
	x.token = token
}

// all are the open texts, in a list that does not change when one ends.
func (t *batch) all() []*activeRequest { return slices.Clone(t.open) }

func (t *batch) end(x *activeRequest, err error) {
	stats, err := x.generation.end(err)
	if closeErr := x.sequence.Close(); closeErr != nil {
		err = errors.Join(err, closeErr)
	}
	t.results[x.index] = Result{stats, err}
	t.open = slices.DeleteFunc(t.open, func(o *activeRequest) bool { return o == x })
}
