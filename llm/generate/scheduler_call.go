package generate

import (
	"context"
	"errors"
	"slices"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// A call is a job that calls a function between two passes.
type call struct {
	ctx  context.Context
	f    func(context.Context) error
	slot bool       // needs a free slot
	done chan error // has room for one
}

func (c *call) context() context.Context { return c.ctx }

// hasRoom makes a slot free for the texts of a causal model. There is one call between two passes. In a session that is
// closed, or whose slots others have taken, no slot becomes free: the call begins and fails.
func (c *call) hasRoom(s *Scheduler) bool {
	if s.called {
		s.awake()
		return false
	}
	if c.slot && s.session.Free() == 0 {
		s.closeOldest()
	}
	return !c.slot || s.session.Free() > 0 || len(s.texts)+len(s.prompts) == 0
}

func (c *call) begin(s *Scheduler) {
	s.called = true
	c.done <- c.f(c.ctx)
}

func (c *call) fail(err error) { c.done <- err }

// Embed is [Embed] in the session of the scheduler.
func (s *Scheduler) Embed(ctx context.Context, texts []string, o infer.EmbedOptions) ([][]float32, error) {
	return s.encode(ctx, func() ([][]int32, error) { return embedTokens(s.m, texts) }, func(ctx context.Context, tokens [][]int32) ([][]float32, error) {
		return s.session.Embed(ctx, tokens, o)
	})
}

// Rerank is [Rerank] in the session of the scheduler.
func (s *Scheduler) Rerank(ctx context.Context, query string, documents []string) ([]float32, error) {
	return firstScores(s.encode(ctx, func() ([][]int32, error) { return pairs(s.m, query, documents) }, func(ctx context.Context, tokens [][]int32) ([][]float32, error) {
		return s.session.Score(ctx, tokens)
	}))
}

// encode computes texts in groups of about as many tokens as a pass, each between two passes.
func (s *Scheduler) encode(ctx context.Context, encode func() ([][]int32, error), compute func(context.Context, [][]int32) ([][]float32, error)) ([][]float32, error) {
	ctx, cancel, err := s.begins(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer cancel()
	texts, err := encode()
	if err != nil {
		return nil, err
	}
	var all [][]float32
	for len(texts) > 0 {
		n := groupOf(texts, s.session.Batch())
		err := s.call(ctx, s.m.Architecture().IsCausal(), func(ctx context.Context) error {
			vectors, err := compute(ctx, texts[:n])
			all = append(all, vectors...)
			return err
		})
		if err != nil {
			var of *infer.TextError
			if errors.As(err, &of) {
				of.Index += len(all)
			}
			return nil, err
		}
		texts = texts[n:]
	}
	return all, nil
}

// call calls a function between two passes.
func (s *Scheduler) call(ctx context.Context, slot bool, f func(context.Context) error) error {
	c := &call{ctx: ctx, slot: slot, f: f, done: make(chan error, 1)}
	if err := s.submit(c); err != nil {
		return err
	}
	return <-c.done
}

// NewAdapters prepares adapters for texts, as [infer.Session.NewAdapters].
func (s *Scheduler) NewAdapters(ctx context.Context, of model.Adapters) (a *infer.Adapters, err error) {
	ctx, cancel, err := s.begins(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer cancel()
	err = s.call(ctx, false, func(context.Context) error {
		a, err = s.session.NewAdapters(of)
		return err
	})
	return a, err
}

// A closing is adapters that are freed once no text has them.
type closing struct {
	ctx  context.Context
	a    *infer.Adapters
	done chan error // has room for one
}

// CloseAdapters frees adapters. Texts that are being generated with them end first; requests that wait for them, and later
// requests, fail.
func (s *Scheduler) CloseAdapters(ctx context.Context, a *infer.Adapters) error {
	ctx, cancel, err := s.begins(ctx, nil)
	if err != nil {
		return err
	}
	defer cancel()
	done := make(chan error, 1)
	if err := s.call(ctx, false, func(context.Context) error {
		s.closing = append(s.closing, closing{ctx, a, done})
		return nil
	}); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// closeUnused closes the adapters of closings that no text has.
func (s *Scheduler) closeUnused() {
	s.closing = slices.DeleteFunc(s.closing, func(c closing) bool {
		has := func(t *text) bool { return t.adapters == c.a }
		switch {
		case c.ctx.Err() != nil:
			return true
		case slices.ContainsFunc(s.texts, has) || slices.ContainsFunc(s.prompts, has):
			return false
		}
		s.kept = slices.DeleteFunc(s.kept, func(q *infer.Sequence) bool { return q.Adapters() == c.a && q.Close() == nil })
		c.done <- c.a.Close()
		return true
	})
}

// groupOf returns how many of the first texts have together at most n tokens, at least one.
func groupOf(texts [][]int32, n int) int {
	count := 0
	for _, tokens := range texts {
		if n -= len(tokens); n < 0 && count > 0 {
			break
		}
		count++
	}
	return count
}
