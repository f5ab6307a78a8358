package sample

import "errors"

// A Constraint decides which tokens may come next in a text. A grammar.Matcher is one.
type Constraint interface {
	// Allows reports whether a token may come next.
	Allows(token int32) (bool, error)
	// Mask sets the logits of tokens that may not come next to −∞.
	Mask(logits []float32) error
	// Accept appends a token to the text.
	Accept(token int32) error
}

// SampleConstrained samples a token that a constraint allows, and appends it to the constraint's text. As llama.cpp does, it
// samples from all tokens first, because the constraint usually allows the result; otherwise from the allowed tokens alone.
// The logits do not change.
func (s *Sampler) SampleConstrained(logits []float32, c Constraint) (int32, error) {
	switch {
	case s == nil || s.rng == nil:
		return 0, errNotMade
	case c == nil:
		return 0, errors.New("the constraint is nil; Sample samples without one")
	}
	if err := s.access.Acquire("Sampler.SampleConstrained", "Sampler"); err != nil {
		return 0, err
	}
	defer s.access.Release()
	token, err := s.sampleConstrained(logits, c)
	if err != nil {
		return 0, err
	}
	if s.penalises() {
		s.remember([]int32{token})
	}
	return token, c.Accept(token)
}

func (s *Sampler) sampleConstrained(logits []float32, c Constraint) (int32, error) {
	token, err := s.sample(logits)
	if err != nil {
		return 0, err
	}
	if allowed, err := c.Allows(token); allowed || err != nil {
		return token, err
	}
	s.masked = append(s.masked[:0], logits...)
	if err := c.Mask(s.masked); err != nil {
		return 0, err
	}
	return s.sample(s.masked)
}
