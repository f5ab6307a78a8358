package testutil

import (
	"bytes"
	"sync"
)

// A Log collects the output of several goroutines.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends to the text.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
