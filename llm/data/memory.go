package data

import (
	"crypto/sha256"
	"fmt"
	"os"
	"sync/atomic"
)

// inMemory is a sampleStore of samples in memory.
type inMemory struct {
	samples []Sample
	closed  atomic.Bool
}

func (m *inMemory) len() int         { return len(m.samples) }
func (m *inMemory) tokens(i int) int { return len(m.samples[i].Tokens) }

func (m *inMemory) sample(i int) (Sample, error) {
	if m.closed.Load() {
		return Sample{}, os.ErrClosed
	}
	return m.samples[i], nil
}

func (m *inMemory) close() error {
	m.closed.Store(true)
	return nil
}

func (m *inMemory) check(length, vocab int) error {
	for i, s := range m.samples {
		if err := s.check(length, vocab); err != nil {
			return fmt.Errorf("sample %d of the data set: %w", i, err)
		}
	}
	return nil
}

func (m *inMemory) fingerprint() string {
	h := sha256.New()
	for _, s := range m.samples {
		s.hash(h)
	}
	return shortHash(h)
}
