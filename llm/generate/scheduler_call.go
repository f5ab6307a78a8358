package generate

import (
	"context"
	"slices"

	"github.com/goggml/ggml/llm/infer"
	"github.com/goggml/ggml/llm/model"
)

// A call is a job that calls a function between two passes.
type call struct {
	ctx  context.Context
	f    func() error
	done chan error // has room for one
}

func (c *call) context() context.Context { return c.ctx }

// hasRoom reports whether no other call has come between the same two passes.
func (c *call) hasRoom(s *Scheduler) bool {
	if s.called {
		s.awake()
	}
	return !s.called
}

func (c *call) begin(s *Scheduler) {
	s.called = true
	c.done <- c.f()
}

func (c *call) fail(err error) { c.done <- err }

// call calls a function between two passes.
func (s *Scheduler) call(ctx context.Context, f func() error) error {
	c := &call{ctx: ctx, f: f, done: make(chan error, 1)}
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
	err = s.call(ctx, func() error {
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
	if err := s.call(ctx, func() error {
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
		embeds := func(e *encoding) bool { return e.adapters == c.a }
		switch {
		case c.ctx.Err() != nil:
			return true
		case slices.ContainsFunc(s.texts, has) || slices.ContainsFunc(s.prompts, has) || slices.ContainsFunc(s.encodings, embeds):
			return false
		}
		s.kept = slices.DeleteFunc(s.kept, func(q *infer.Sequence) bool { return q.Adapters() == c.a && q.Close() == nil })
		c.done <- c.a.Close()
		return true
	})
}
