package data

import (
	"crypto/sha256"
	"fmt"
)

// inMemory is a sampleStore of samples in memory.
type inMemory []Sample

func (m inMemory) len() int                     { return len(m) }
func (m inMemory) tokens(i int) int             { return len(m[i].Tokens) }
func (m inMemory) sample(i int) (Sample, error) { return m[i], nil }
func (m inMemory) close() error                 { return nil }

func (m inMemory) check(length, vocab int) error {
	for i, s := range m {
		if err := s.check(length, vocab); err != nil {
			return fmt.Errorf("sample %d of the data set: %w", i, err)
		}
	}
	return nil
}

func (m inMemory) fingerprint() string {
	h := sha256.New()
	for _, s := range m {
		s.hash(h)
	}
	return shortHash(h)
}
