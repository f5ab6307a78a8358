package optest

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// CPU returns the CPU's device.
func CPU(t testing.TB) *ggml.Device {
	return need.Value(ggml.DeviceByType(ggml.CPU))(t)
}

// NewCPUBackend calls ggml.NewCPUBackend; the backend is closed when the test ends.
func NewCPUBackend(t testing.TB, threads int) *ggml.Backend {
	b := need.Value(ggml.NewCPUBackend(threads))(t)
	t.Cleanup(func() { b.Close() })
	return b
}

// NewGraphAllocator calls ggml.NewGraphAllocator for CPU memory; the allocator is closed when the test ends.
func NewGraphAllocator(t testing.TB) *ggml.GraphAllocator {
	a := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
	t.Cleanup(func() { a.Close() })
	return a
}

// NewScheduler calls ggml.NewScheduler; the scheduler is closed when the test ends.
func NewScheduler(t testing.TB, backends ...*ggml.Backend) *ggml.Scheduler {
	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, backends...))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// Leaves allocates n tensors of the shape; element i of tensor k is 100k+i.
func Leaves(t testing.TB, n int, shape ...int64) []*ggml.Tensor {
	c := ggml.NewContext()
	var list []*ggml.Tensor
	for range n {
		list = append(list, c.NewTensor(ggml.F32, shape...))
	}
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	t.Cleanup(func() {
		buffers.Close()
		c.Close()
	})
	for k, x := range list {
		values := make([]float32, x.NumElements())
		for i := range values {
			values[i] = float32(100*k + i)
		}
		require.NoError(t, ggml.Write(x, values))
	}
	return list
}

// A Workbench is a context for ops, with leaves, and a backend with an allocator.
type Workbench struct {
	*ggml.Context
	Leaves    *ggml.Context
	Backend   *ggml.Backend
	Allocator *ggml.GraphAllocator
	t         *testing.T
}

// NewWorkbench returns a workbench that is closed when the test ends.
func NewWorkbench(t *testing.T) *Workbench {
	w := &Workbench{Context: ggml.NewContext(), t: t, Leaves: ggml.NewContext()}
	t.Cleanup(func() {
		w.Close()
		w.Leaves.Close()
	})
	w.Backend, w.Allocator = NewCPUBackend(t, 2), NewGraphAllocator(t)
	return w
}

// Leaf returns an F32 vector with values.
func (w *Workbench) Leaf(values ...float32) *ggml.Tensor {
	x := w.Leaves.NewTensor(ggml.F32, int64(len(values)))
	buffers := need.Value(w.Leaves.Allocate(ggml.CPUBufferType()))(w.t)
	w.t.Cleanup(func() { buffers.Close() })
	require.NoError(w.t, ggml.Write(x, values))
	return x
}

// Compute allocates and computes a graph.
func (w *Workbench) Compute(g *ggml.Graph) {
	w.t.Helper()
	require.NoError(w.t, w.Allocator.Allocate(g))
	require.NoError(w.t, w.Backend.Compute(context.Background(), g))
}

// RequireErrors builds each op in a separate context, and requires the error that is its key.
func RequireErrors(t *testing.T, ops map[string]func(c *ggml.Context)) {
	t.Helper()
	for want, build := range ops {
		c := ggml.NewContext()
		build(c)
		require.ErrorContains(t, c.Err(), want)
		c.Close()
	}
}

// Normal returns n normally distributed numbers, the same for each seed.
func Normal(seed uint64, n int) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// Ones returns n ones.
func Ones(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

// Found returns the result of a look-up, and panics if nothing was found.
func Found[T any](x T, ok bool) T {
	if !ok {
		panic("the look-up found nothing")
	}
	return x
}

// Finds reports whether a look-up finds something.
func Finds[T any](_ T, ok bool) bool { return ok }

// Err returns the error of a call that also returns a count, such as ReadAt.
func Err(_ int, err error) error { return err }
