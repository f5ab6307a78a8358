package ggml

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCrowd(t *testing.T) {
	var calls []bool
	c := &crowd{sleep: func(on bool) { calls = append(calls, on) }}
	ms := func(took, delayed int) {
		c.note(time.Duration(took)*time.Millisecond, time.Duration(delayed)*time.Millisecond)
	}
	ms(99, 99) // too little to judge
	require.Empty(t, calls)
	ms(901, 0) // a tenth of both together
	ms(100, 14)
	require.Empty(t, calls)
	for range 10 {
		ms(10, 2)
	}
	require.Equal(t, []bool{true}, calls)
	ms(100, 50)
	ms(100, 6) // still not its own
	require.Equal(t, []bool{true}, calls)
	ms(60, 0)
	ms(60, 4)
	require.Equal(t, []bool{true, false}, calls)
	ms(100, 20)
	require.Equal(t, []bool{true, false, true}, calls)
}

// A computation goes on while its threads learn to sleep and to spin.
func TestCrowdDuringComputation(t *testing.T) {
	p := ownCrowd()
	if p == nil {
		t.Skip("the environment says how OpenMP waits")
	}
	backend, err := NewCPUBackend(2)
	require.NoError(t, err)
	defer backend.Close()
	c := NewContext()
	defer c.Close()
	x := c.NewTensor(F32, 64, 64)
	buffer, err := c.Allocate(backend.BufferType())
	require.NoError(t, err)
	defer buffer.Close()
	require.NoError(t, Write(x, make([]float32, 64*64)))
	y := x
	for range 200 {
		y = c.ScaleBiasInPlace(c.MulMat(x, y), 1, 1)
	}
	graph := c.NewGraph(y)
	alloc, err := NewGraphAllocator(backend.BufferType())
	require.NoError(t, err)
	defer alloc.Close()
	require.NoError(t, alloc.Alloc(graph))
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for on := true; ; on = !on {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				p.mu.Lock()
				if on != p.sleeping {
					p.sleeping = on
					p.sleep(on)
				}
				p.mu.Unlock()
			}
		}
	}()
	for range 100 {
		require.NoError(t, backend.Compute(t.Context(), graph))
		got, err := Read[float32](y)
		require.NoError(t, err)
		require.Equal(t, float32(1), got[0]) // the product of zeros, and one
	}
	close(stop)
	<-done
}
