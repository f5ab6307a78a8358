package ggml_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// The garbage collector frees objects dropped without Close, with a warning; also cycles through
// contexts, graphs and allocators.
func TestCollectedWithoutClose(t *testing.T) {
	log := captureLog(t)
	optest.Devices(t)
	before := ggml.OpenObjects()
	func() {
		leaves, c := ggml.NewContext(), ggml.NewContext()
		x := leaves.NewTensor(ggml.F32, 4)
		_, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4}))
		y := c.Neg(x)
		leaves.Add(x, y) // now each context depends on the other
		b := need.Value(ggml.NewCPUBackend(1))(t)
		a := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
		g := c.NewGraph(y)
		require.NoError(t, a.Allocate(g))
		require.NoError(t, b.Compute(context.Background(), g))
		s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, b))(t)
		require.NoError(t, s.Allocate(c.NewGraph(c.Abs(x))))
		require.NoError(t, s.SetTensorBackend(y, b))
	}()
	collected(t, before)
	for _, kind := range []string{"context", "buffer", "backend", "\"graph allocator\"", "scheduler"} {
		require.Contains(t, log.String(), `level=WARN msg="ggml: object was garbage collected without Close" kind=`+kind)
	}
}

// collected waits until the garbage collector has closed the objects opened since.
func collected(t testing.TB, before map[string]int) {
	require.Eventually(t, func() bool {
		runtime.GC()
		for kind, n := range ggml.OpenObjects() {
			if n > before[kind] {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, "still open: %v", ggml.OpenObjects())
}

// A graph keeps the allocator of its memory, and tensors keep their buffer.
func TestMemoryOutlivesItsVariables(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	before := ggml.OpenObjects()
	captureLog(t)
	useDropped(t, b)
	collected(t, before)
}

func useDropped(t *testing.T, b *ggml.Backend) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x := leaves.NewTensor(ggml.F32, 2)
	y := c.Neg(x)
	g := c.NewGraph(y)
	func() {
		_, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		a := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
		require.NoError(t, a.Allocate(g))
	}()
	for range 3 {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	require.NoError(t, ggml.Write(x, []float32{1, 2}))
	require.NoError(t, b.Compute(context.Background(), g))
	got := need.Value(ggml.Read[float32](y))(t)
	require.Equal(t, []float32{-1, -2}, got)
}
