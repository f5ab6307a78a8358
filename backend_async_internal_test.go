package ggml

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// What asynchronous work needed is let go of by a computation that waits for its end.
func TestComputeEndsPendingWork(t *testing.T) {
	b, err := NewCPUBackend(1)
	require.NoError(t, err)
	defer b.Close()
	b.async = true
	c := NewContext()
	defer c.Close()
	x := c.NewTensor(F32, 4)
	g := c.NewGraph(c.SqrInPlace(x))
	buffers, err := c.Allocate(b.BufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.NoError(t, b.WriteAsync(x, make([]byte, 16), 0))
	require.Len(t, b.pending.releases, 1)
	require.NoError(t, b.Compute(context.Background(), g))
	require.Empty(t, b.pending.releases)
}
