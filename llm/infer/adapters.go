package infer

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/nn"
	"github.com/goggml/ggml/llm/model"
)

// Adapters are adapters that sequences of a session can have instead of the session's own. Sequences with different ones
// share the session's memory, and the passes of steps ([Session.Step]). They are used by one goroutine, the session's.
type Adapters struct {
	session  *Session
	lowering *lowering
}

// NewAdapters prepares adapters for [Sequence.SetAdapters], see [SessionOptions.Adapters]; nil is the model without adapters.
func (s *Session) NewAdapters(of model.Adapters) (*Adapters, error) {
	if err := s.acquire("Session.NewAdapters"); err != nil {
		return nil, err
	}
	defer s.access.Release()
	if err := s.checkOpen(); err != nil {
		return nil, err
	}
	if err := s.d.m.CheckAdapters(of); err != nil {
		return nil, err
	}
	if err := s.d.m.CheckEngine(s.d.engine, of); err != nil {
		return nil, err
	}
	l, err := newLowering(s.d.m, s.d.engine, nn.AdaptersOf(of), 0)
	if err != nil {
		return nil, err
	}
	a := &Adapters{session: s, lowering: l}
	s.adapters = append(s.adapters, a)
	s.closeMixture() // it lacks them
	return a, nil
}

// Close frees the adapters, which no open sequence may have. The session closes them too.
func (a *Adapters) Close() error {
	if a == nil || a.session == nil {
		return nil
	}
	s := a.session
	if err := s.acquire("Adapters.Close"); err != nil {
		return err
	}
	defer s.access.Release()
	i := slices.Index(s.adapters, a)
	if i < 0 {
		return nil
	}
	if slices.ContainsFunc(s.slots, func(q *Sequence) bool { return q != nil && q.adapters == a }) {
		return errors.New("an open sequence has the adapters; close it, or give it others")
	}
	s.adapters = slices.Delete(s.adapters, i, i+1)
	s.closeMixture()
	s.d.forget(a.lowering)
	a.lowering.close()
	return nil
}

// closeAdapters closes all adapters, for a session that is closed.
func (s *Session) closeAdapters() {
	for _, a := range s.adapters {
		a.lowering.close()
	}
	s.adapters = nil
}

// Adapters returns the adapters of the sequence; nil if it takes its session's.
func (q *Sequence) Adapters() *Adapters {
	if q == nil {
		return nil
	}
	return q.adapters
}

// SetAdapters gives the sequence adapters of its session; nil are the session's own. If they are others than before, the
// sequence loses its tokens, whose states depend on them.
func (q *Sequence) SetAdapters(a *Adapters) error {
	if err := q.acquire("Sequence.SetAdapters"); err != nil {
		return err
	}
	defer q.session.access.Release()
	if err := q.CheckOpen(); err != nil {
		return err
	}
	if a == q.adapters {
		return nil
	}
	if err := q.session.checkAdapters(a); err != nil {
		return err
	}
	if _, err := q.rewind(0); err != nil {
		return err
	}
	q.adapters = a
	return nil
}

// checkAdapters returns an error for adapters that texts of the session cannot have; nil are its own.
func (s *Session) checkAdapters(a *Adapters) error {
	switch {
	case a == nil:
		return nil
	case a.session == nil:
		return fmt.Errorf("the adapters are a zero value; Session.NewAdapters makes them: %w", ggml.ErrZeroValue)
	case a.session != s:
		return errors.New("the adapters belong to another session")
	case !slices.Contains(s.adapters, a):
		return fmt.Errorf("adapters: %w", ggml.ErrClosed)
	}
	return nil
}

// of returns the lowering of adapters; nil for the session's own.
func (a *Adapters) of() *lowering {
	if a == nil {
		return nil
	}
	return a.lowering
}
