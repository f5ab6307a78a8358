package data

import (
	"errors"
	"fmt"
	"math"
)

// A Sample is a sequence of tokens of which each is to be predicted from those
// before it.
type Sample struct {
	Tokens  []int32   // the first token is not predicted
	Weights []float32 // of predicting Tokens[1:]; nil: 1 each
}

// Targets counts the tokens that are learned.
func (s Sample) Targets() int {
	if s.Weights == nil {
		return max(0, len(s.Tokens)-1)
	}
	n := 0
	for _, w := range s.Weights {
		if w != 0 {
			n++
		}
	}
	return n
}

// A Dataset is a list of samples of at most Length+1 tokens. It does not
// change, and is safe for concurrent use.
type Dataset struct {
	Length  int // predicted tokens of a full sample
	Samples []Sample
}

// Check demands samples that a model with a vocabulary of that size can learn.
func (d *Dataset) Check(vocab int) error {
	if d == nil || len(d.Samples) == 0 {
		return errors.New("the data set has no samples")
	}
	for i, s := range d.Samples {
		if err := s.check(d.Length, vocab); err != nil {
			return fmt.Errorf("sample %d of the data set: %w", i, err)
		}
	}
	return nil
}

func (s Sample) check(length, vocab int) error {
	if len(s.Tokens) > length+1 {
		return fmt.Errorf("it has %d tokens; at most %d fit", len(s.Tokens), length+1)
	}
	if s.Weights != nil && len(s.Weights) != max(0, len(s.Tokens)-1) {
		return fmt.Errorf("it has %d weights for %d predicted tokens", len(s.Weights), max(0, len(s.Tokens)-1))
	}
	for i, token := range s.Tokens {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("token %d is %d; the vocabulary has %d", i, token, vocab)
		}
	}
	for i, w := range s.Weights {
		if !(w >= 0) || math.IsInf(float64(w), 0) {
			return fmt.Errorf("weight %d is %v; it must be finite and not negative", i, w)
		}
	}
	return nil
}

// Tokens counts the tokens that are learned in one epoch.
func (d *Dataset) Tokens() int {
	n := 0
	for _, s := range d.Samples {
		n += s.Targets()
	}
	return n
}

// Limit returns a data set of at most n samples, spread evenly.
func (d *Dataset) Limit(n int) *Dataset {
	if n <= 0 || len(d.Samples) <= n {
		return d
	}
	few := &Dataset{Length: d.Length}
	for i := range n {
		few.Samples = append(few.Samples, d.Samples[i*len(d.Samples)/n])
	}
	return few
}
