package data

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
)

// memory is samples that are in memory.
type memory []Sample

func (m memory) len() int                     { return len(m) }
func (m memory) tokens(i int) int             { return len(m[i].Tokens) }
func (m memory) sample(i int) (Sample, error) { return m[i], nil }
func (m memory) close() error                 { return nil }

func (m memory) check(length, vocab int) error {
	for i, s := range m {
		if err := s.check(length, vocab); err != nil {
			return fmt.Errorf("sample %d of the data set: %w", i, err)
		}
	}
	return nil
}

func (m memory) fingerprint() string {
	h := sha256.New()
	for _, s := range m {
		s.hash(h)
	}
	return shortHash(h)
}

// hash adds the sample to a fingerprint. Weights that are all 1 are as good as none.
func (s Sample) hash(h hash.Hash) {
	weights := s.Weights
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
