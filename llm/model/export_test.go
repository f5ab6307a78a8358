package model

import "testing"

// SetAvailableMemory says how much memory there is, during a test.
func SetAvailableMemory(t testing.TB, size int64) {
	was := availableMemory
	availableMemory = func() int64 { return size }
	t.Cleanup(func() { availableMemory = was })
}
