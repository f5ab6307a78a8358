package ggml_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/computethread"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A computation goes on while the wait policy of OpenMP changes.
func TestWaitPolicyDuringComputation(t *testing.T) {
	backend := optest.NewCPUBackend(t, 2)
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 64, 64)
	buffer := need.Value(c.Allocate(backend.BufferType()))(t)
	defer buffer.Close()
	require.NoError(t, ggml.Write(x, make([]float32, 64*64)))
	y := x
	for range 200 {
		y = c.ScaleBiasInPlace(c.MulMat(x, y), 1, 1)
	}
	graph := c.NewGraph(y)
	alloc := optest.NewGraphAllocator(t)
	require.NoError(t, alloc.Allocate(graph))
	if !computethread.SetPassive(true) {
		t.Skip("the environment sets the wait policy of OpenMP")
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for passive := false; ; passive = !passive {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				computethread.SetPassive(passive)
			}
		}
	}()
	computations := 100
	if testing.Short() {
		computations = 10
	}
	for range computations {
		require.NoError(t, backend.Compute(t.Context(), graph))
		got := need.Value(ggml.Read[float32](y))(t)
		require.Equal(t, float32(1), got[0]) // the product of zeros, and one
	}
	close(stop)
	<-done
	computethread.SetPassive(false)
}
