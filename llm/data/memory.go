package data

import (
	"crypto/sha256"
	"fmt"
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
