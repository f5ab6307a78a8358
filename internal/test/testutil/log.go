package testutil

import (
	"bytes"
	"sync"
)

// A Log collects what several goroutines write.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to the text.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
