package ggml

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the threads that compute at once one is kept, as long as there is a backend.
func TestComputeThreads(t *testing.T) {
	b, err := NewCPUBackend(2)
	require.NoError(t, err)
	defer b.Close()
	var wg sync.WaitGroup
	taken := make(chan *computeThread, 8)
	for range cap(taken) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			thread, err := takeComputeThread()
			require.NoError(t, err)
			taken <- thread
		}()
	}
	wg.Wait()
	close(taken)
	seen := map[*computeThread]bool{}
	for thread := range taken {
		seen[thread] = true
		giveComputeThread(thread)
	}
	require.Len(t, seen, cap(taken))

	kept, err := takeComputeThread()
	require.NoError(t, err)
	require.True(t, seen[kept])
	giveComputeThread(kept)
	again, err := takeComputeThread()
	require.NoError(t, err)
	require.Same(t, kept, again)
	giveComputeThread(again)
}
