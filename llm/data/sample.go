package data

import (
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"github.com/goggml/ggml/internal/counted"
)

// A Sample is a sequence of tokens, each to be predicted from the tokens before it.
type Sample struct {
	Tokens      []int32   // the first token is not predicted
	LossWeights []float32 // of predicting Tokens[1:]; nil: 1 each
	Notes       []Note    // on the example that it is made of; Prepare counts them, and a data set does not keep them
}

// Predicted counts the tokens that are predicted: all but the first.
func (s Sample) Predicted() int { return max(0, len(s.Tokens)-1) }

// Targets counts the tokens that are trained: those predicted with a weight other than 0.
func (s Sample) Targets() int {
	if s.LossWeights == nil {
		return s.Predicted()
	}
	n := 0
	for _, w := range s.LossWeights {
		if w != 0 {
			n++
		}
	}
	return n
}

func (s Sample) check(length, vocab int) error {
	if len(s.Tokens) > length+1 {
		return fmt.Errorf("it has %s; at most %d fit", counted.Of(len(s.Tokens), "token"), length+1)
	}
	if s.LossWeights != nil && len(s.LossWeights) != s.Predicted() {
		return fmt.Errorf("it has %s for %s", counted.Of(len(s.LossWeights), "weight"), counted.Of(s.Predicted(), "predicted token"))
	}
	for i, token := range s.Tokens {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("token %d is %d; the vocabulary has %d", i, token, vocab)
		}
	}
	for i, w := range s.LossWeights {
		if !(w >= 0) || math.IsInf(float64(w), 0) {
			return fmt.Errorf("weight %d is %v; it must be finite and not negative", i, w)
		}
	}
	return nil
}

// part is the sample of some predicted tokens.
func (s Sample) part(from, length int) Sample {
	to := min(from+length, s.Predicted())
	p := Sample{Tokens: s.Tokens[from : to+1]}
	if s.LossWeights != nil {
		p.LossWeights = s.LossWeights[from:to]
	}
	return p
}

// hash adds the sample to a fingerprint. Weights that are all 1 are as good as none.
func (s Sample) hash(h hash.Hash) {
	weights := s.LossWeights
	if allOne(weights) {
		weights = nil
	}
	binary.Write(h, binary.LittleEndian, [2]int64{int64(len(s.Tokens)), int64(len(weights))})
	binary.Write(h, binary.LittleEndian, s.Tokens)
	binary.Write(h, binary.LittleEndian, weights)
}

func allOne(weights []float32) bool {
	for _, w := range weights {
		if w != 1 {
			return false
		}
	}
	return true
}
