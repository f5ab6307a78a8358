package ggml

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Many at once take many threads, among them the first if it were allowed;
// afterwards one is kept, as long as there is a backend.
func TestComputeThreads(t *testing.T) {
	b, err := NewCPUBackend(2)
	require.NoError(t, err)
	defer b.Close()
	var onFirst, ran atomic.Int32
	for range 20 {
		var wg sync.WaitGroup
		for range 8 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				onComputeThread(func() {
					if onFirstThread() {
						onFirst.Add(1)
					}
					ran.Add(1)
					runtime.Gosched()
				})
			}()
		}
		wg.Wait()
	}
	require.EqualValues(t, 160, ran.Load())
	require.Zero(t, onFirst.Load())

	computeThreads.mu.Lock()
	kept := computeThreads.idle
	computeThreads.mu.Unlock()
	require.NotNil(t, kept)
	onComputeThread(func() {})
	computeThreads.mu.Lock()
	defer computeThreads.mu.Unlock()
	require.Same(t, kept, computeThreads.idle)
}
