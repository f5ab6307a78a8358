package ggml_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/testhook"
)

// A computation that waits for its end releases the resources of earlier asynchronous work.
func TestComputeEndsPendingWork(t *testing.T) {
	testhook.Async = true
	b, err := ggml.NewCPUBackend(1)
	testhook.Async = false
	require.NoError(t, err)
	defer b.Close()
	g, _ := steps(t, 1)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4)
	buffers := need.Value(c.Allocate(b.BufferType()))(t)
	defer buffers.Close()
	var freed atomic.Int64
	func() {
		data := make([]byte, 1<<16)
		runtime.AddCleanup(&data[0], func(int) { freed.Add(1) }, 0)
		require.NoError(t, b.WriteAsync(x, data[:16], 0))
	}()
	for range 3 {
		runtime.GC()
	}
	require.Zero(t, freed.Load(), "it is needed")
	require.NoError(t, b.Compute(context.Background(), g))
	require.Eventually(t, func() bool {
		runtime.GC()
		return freed.Load() == 1
	}, time.Minute, time.Millisecond)
}
