package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"math"

	"github.com/goggml/ggml/internal/counted"
)

// A Sample is a sequence of tokens. Each token except the first is predicted from the tokens before it.
type Sample struct {
	Tokens      []int32   // the first token is not predicted
	LossWeights []float32 // weight of predicting Tokens[1:]; nil means all 1
	// Words reports, for each token, whether it is part of the words of a message rather than of the
	// template's mark-up around them; nil if no template was used.
	Words   []bool
	Label   Label  // judges the answer, for losses of preferences
	Teacher string // that scores it, by its name in the record; "" for the first
	Origin  Origin
	Notes   []Note // notes on its example; Prepare counts them, and data sets do not store them
}

// An Origin is the place of a sample in the sources of its data set, see [Dataset.Place].
type Origin struct {
	File  int // index of the file in the sources
	Line  int // of the record, as in Example, or of the beginning of a text's document; 0 if unknown
	Token int // index of the sample's first token in the tokens of the record or document
}

// Predicted returns the number of predicted tokens: all but the first.
func (s Sample) Predicted() int { return max(0, len(s.Tokens)-1) }

// Targets returns the number of trained tokens: predicted ones with nonzero weight.
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
	if s.Words != nil && len(s.Words) != len(s.Tokens) {
		return fmt.Errorf("it says of %d tokens whether they are words, and has %d", len(s.Words), len(s.Tokens))
	}
	if s.Label > Mismatched {
		return fmt.Errorf("its label is %d; there is no such label", s.Label)
	}
	if o := s.Origin; o.File < 0 || o.Line < 0 || o.Token < 0 {
		return fmt.Errorf("its origin is %+v; no number of it is negative", o)
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

// part returns the sample of `length` predicted tokens from index `from` on.
func (s Sample) part(from, length int) Sample {
	to := min(from+length, s.Predicted())
	end := min(to+1, len(s.Tokens)) // a sample may have no tokens
	p := Sample{Tokens: s.Tokens[from:end], Label: s.Label, Teacher: s.Teacher, Origin: s.Origin}
	p.Origin.Token += from
	if s.Words != nil {
		p.Words = s.Words[from:end]
	}
	if s.LossWeights != nil {
		p.LossWeights = s.LossWeights[from:to]
	}
	return p
}

// hash adds the tokens, weights, label and teacher of the sample to a fingerprint. Weights that are all 1 count as nil.
func (s Sample) hash(h hash.Hash) {
	weights := s.LossWeights
	if allOne(weights) {
		weights = nil
	}
	binary.Write(h, binary.LittleEndian, [2]int64{int64(len(s.Tokens)), int64(len(weights))})
	binary.Write(h, binary.LittleEndian, s.Tokens)
	binary.Write(h, binary.LittleEndian, weights)
	if s.Label != Unlabelled {
		h.Write([]byte{byte(s.Label)})
	}
	if s.Teacher != "" {
		fmt.Fprintf(h, "teacher %q", s.Teacher)
	}
}

// Hash returns a hash of the tokens, weights, label and teacher of the sample. Weights that are all 1 count as nil.
func (s Sample) Hash() (sum [16]byte) {
	h := sha256.New()
	s.hash(h)
	copy(sum[:], h.Sum(nil))
	return sum
}

func allOne(weights []float32) bool {
	for _, w := range weights {
		if w != 1 {
			return false
		}
	}
	return true
}
