package ggml_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

// Goroutines that share a backend, or a context, an allocator, a graph and a scheduler, wait for
// each other and get right results.
func TestSharedBackend(t *testing.T) {
	backend := optest.NewCPUBackend(t, 2)
	var wg testutil.Goroutines
	for i := range 4 {
		wg.Go(func() {
			leaves, c := ggml.NewContext(), ggml.NewContext()
			defer leaves.Close()
			defer c.Close()
			x := leaves.NewTensor(ggml.F32, 64, 64).SetName("x")
			buffers, err := leaves.Allocate(ggml.CPUBufferType())
			assertNoError(t, err)
			defer buffers.Close()
			y := x
			for range 50 {
				y = c.ScaleBias(y, 1, float32(i))
			}
			g := c.NewGraph(y)
			alloc, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
			assertNoError(t, err)
			defer alloc.Close()
			assertNoError(t, alloc.Allocate(g))
			for round := range 20 {
				values := make([]float32, 64*64)
				for j := range values {
					values[j] = float32(round)
				}
				assertNoError(t, ggml.Write(x, values))
				assertNoError(t, backend.Compute(context.Background(), g))
				got, err := ggml.Read[float32](y)
				assertNoError(t, err)
				for j, v := range got {
					if v != float32(round+50*i) {
						t.Errorf("goroutine %d, element %d: %v", i, j, v)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

// One context, two graphs, each with its own allocator.
func TestSharedContext(t *testing.T) {
	b := newAddition(t)
	alloc, backend := optest.NewGraphAllocator(t), optest.NewCPUBackend(t, 1)
	other := b.c.NewGraph(b.c.Sqr(b.a))
	var wg testutil.Goroutines
	wg.Go(func() {
		for range 200 {
			assertNoError(t, b.compute())
			got, err := ggml.Read[float32](b.y)
			assertNoError(t, err)
			if len(got) != 4 || got[3] != 8 {
				t.Error(got)
			}
		}
	})
	wg.Go(func() {
		for range 200 {
			assertNoError(t, alloc.Allocate(other))
			assertNoError(t, backend.Compute(context.Background(), other))
		}
	})
	wg.Go(func() {
		for range 200 {
			b.c.NewGraph(b.c.Abs(b.a))
		}
	})
	wg.Wait()
}

// Objects closed while in use live until the use ends.
func TestCloseDuringCompute(t *testing.T) {
	for range 5 {
		g, _ := chain(t, 200, 64)
		backend := need.Value(ggml.NewCPUBackend(2))(t)
		alloc := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
		require.NoError(t, alloc.Allocate(g))
		b := newAddition(t)
		second := need.Value(ggml.NewCPUBackend(1))(t)
		sched := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, second))(t)
		other := b.c.NewGraph(b.c.Neg(b.a))
		require.NoError(t, sched.Allocate(other))

		var wg testutil.Goroutines
		until := func(f func() error) {
			wg.Go(func() {
				for {
					if err := f(); err != nil {
						if !errors.Is(err, ggml.ErrClosed) && !errors.Is(err, ggml.ErrNotAllocated) {
							t.Error(err)
						}
						return
					}
				}
			})
		}
		until(func() error { return backend.Compute(context.Background(), g) })
		until(func() error { return sched.Compute(context.Background(), other) })
		until(func() error { _, err := ggml.Read[float32](b.y); return err })
		until(func() error { return ggml.Write(b.a, []float32{1, 2, 3, 4}) })
		until(b.compute)
		until(func() error { b.y.Name(); return b.c.NewGraph(b.c.Abs(b.y)).Context().Err() })
		time.Sleep(2 * time.Millisecond)
		alloc.Close()
		backend.Close()
		b.buffers.Close()
		b.alloc.Close()
		time.Sleep(time.Millisecond)
		sched.Close()
		second.Close()
		b.c.Close()
		wg.Wait()
	}
}

// Two goroutines that take an allocator from each other.
func TestAllocatorContention(t *testing.T) {
	b := newAddition(t)
	other := b.c.NewGraph(b.c.Neg(b.a))
	var wg testutil.Goroutines
	for _, g := range []*ggml.Graph{b.graph, other} {
		wg.Go(func() {
			for range 300 {
				err := b.alloc.Allocate(g)
				if err == nil {
					err = b.backend.Compute(context.Background(), g)
				}
				if err != nil && !errors.Is(err, ggml.ErrNotAllocated) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
