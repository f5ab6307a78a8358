package ggml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the threads that compute at once one is kept, as long as there is a backend.
func TestComputeThreads(t *testing.T) {
	b, err := NewCPUBackend(2)
	require.NoError(t, err)
	defer b.Close()
	seen := map[*computeThread]bool{}
	for range 8 {
		thread, err := takeComputeThread()
		require.NoError(t, err)
		seen[thread] = true
	}
	require.Len(t, seen, 8)
	for thread := range seen {
		giveComputeThread(thread)
	}

	kept, err := takeComputeThread()
	require.NoError(t, err)
	require.True(t, seen[kept])
	giveComputeThread(kept)
	again, err := takeComputeThread()
	require.NoError(t, err)
	require.Same(t, kept, again)
	giveComputeThread(again)
}
