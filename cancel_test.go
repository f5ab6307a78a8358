package ggml_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// chain makes a graph of n products of square matrices, one after the other.
func chain(t testing.TB, n int, size int64) (*ggml.Graph, *ggml.Tensor) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	m := leaves.NewTensor(ggml.F32, size, size)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	values := make([]float32, size*size)
	for i := range size {
		values[i*size+i] = 1
	}
	require.NoError(t, ggml.Write(m, values))
	y := m
	for range n {
		y = c.MulMat(m, y)
	}
	t.Cleanup(func() {
		buffers.Close()
		c.Close()
		leaves.Close()
	})
	return c.NewGraph(y), y
}

// goroutines is a sync.WaitGroup with the Go method that it has from Go 1.25 on.
type goroutines struct{ sync.WaitGroup }

func (g *goroutines) Go(f func()) {
	g.Add(1)
	go func() {
		defer g.Done()
		f()
	}()
}

func cpuBackend(t testing.TB, threads int) *ggml.Backend {
	b, err := ggml.NewCPUBackend(threads)
	require.NoError(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func graphAllocator(t testing.TB) *ggml.GraphAllocator {
	a, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
	require.NoError(t, err)
	t.Cleanup(func() { a.Close() })
	return a
}

func scheduler(t testing.TB, backends ...*ggml.Backend) *ggml.Scheduler {
	s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, backends...)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// A cancelled compute stops before the next node, gives the cause, and leaves
// the backend as it was.
func TestCancel(t *testing.T) {
	const nodes = 2000
	backend, sched := cpuBackend(t, 1), scheduler(t, cpuBackend(t, 1))
	alloc := graphAllocator(t)
	kinds := map[string]struct {
		alloc   func(g *ggml.Graph) error
		compute func(ctx context.Context, g *ggml.Graph) error
	}{
		"backend":   {alloc.Alloc, backend.Compute},
		"scheduler": {sched.Alloc, sched.Compute},
	}
	for name, k := range kinds {
		t.Run(name, func(t *testing.T) {
			g, y := chain(t, nodes, 128)
			require.NoError(t, k.alloc(g))
			start := time.Now()
			require.NoError(t, k.compute(context.Background(), g))
			whole := time.Since(start)

			stop := errors.New("that is enough")
			var cancelled time.Time
			for attempt := range 10 { // the timer may be late on a busy machine
				ctx, cancel := context.WithCancelCause(context.Background())
				fired := make(chan struct{})
				time.AfterFunc(whole/time.Duration(10+10*attempt), func() {
					cancelled = time.Now()
					cancel(stop)
					close(fired)
				})
				err := k.compute(ctx, g)
				<-fired
				if err != nil {
					require.Equal(t, stop, err)
					break
				}
				require.Less(t, attempt, 9, "the compute was never cancelled")
			}
			// A node takes 1/2000 of it; the rest is for a busy machine.
			require.Less(t, time.Since(cancelled), whole/4+50*time.Millisecond)

			late, done := context.WithDeadline(context.Background(), time.Now())
			defer done()
			require.ErrorIs(t, k.compute(late, g), context.DeadlineExceeded)
			require.Equal(t, stop, k.compute(cancelledWith(stop), g))

			require.NoError(t, k.compute(context.Background(), g))
			got, err := ggml.Read[float32](y)
			require.NoError(t, err)
			require.Equal(t, float32(1), got[0])
			require.Equal(t, float32(1), got[len(got)-1])
		})
	}
}

func cancelledWith(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// Goroutines that share a backend wait for each other, and get right numbers;
// so do those that share a context, an allocator, a graph and a scheduler.
func TestSharedBackend(t *testing.T) {
	backend := cpuBackend(t, 2)
	var wg goroutines
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
			assertNoError(t, alloc.Alloc(g))
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

func assertNoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// One context, two graphs with allocators of their own.
func TestSharedContext(t *testing.T) {
	b := newBench(t)
	alloc, backend := graphAllocator(t), cpuBackend(t, 1)
	other := b.c.NewGraph(b.c.Sqr(b.a))
	var wg goroutines
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
			assertNoError(t, alloc.Alloc(other))
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

// Whatever is closed while it is in use lives until the use ends.
func TestCloseDuringCompute(t *testing.T) {
	for range 5 {
		g, _ := chain(t, 200, 64)
		backend, err := ggml.NewCPUBackend(2)
		require.NoError(t, err)
		alloc, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
		require.NoError(t, err)
		require.NoError(t, alloc.Alloc(g))
		b := newBench(t)
		second, err := ggml.NewCPUBackend(1)
		require.NoError(t, err)
		sched, err := ggml.NewScheduler(ggml.SchedulerOptions{}, second)
		require.NoError(t, err)
		other := b.c.NewGraph(b.c.Neg(b.a))
		require.NoError(t, sched.Alloc(other))

		var wg goroutines
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
	b := newBench(t)
	other := b.c.NewGraph(b.c.Neg(b.a))
	var wg goroutines
	for _, g := range []*ggml.Graph{b.graph, other} {
		wg.Go(func() {
			for range 300 {
				err := b.alloc.Alloc(g)
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
