package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A reentry is a graph, on a backend with a thread pool, whose node calls back.
type reentry struct {
	backend *ggml.Backend
	pool    *ggml.ThreadPool
	c       *ggml.Context
	x       *ggml.Tensor
	graph   *ggml.Graph
	alloc   *ggml.GraphAllocator
	call    func() error // called by one of the threads
	result  error        // error of call
}

func newReentry(t *testing.T, threads int) *reentry {
	r := &reentry{backend: optest.NewCPUBackend(t, threads), c: ggml.NewContext(), alloc: optest.NewGraphAllocator(t)}
	t.Cleanup(func() { r.c.Close() })
	r.pool = need.Value(ggml.NewThreadPool(ggml.DefaultThreadPoolParams(threads)))(t)
	t.Cleanup(func() { r.pool.Close() })
	require.NoError(t, r.backend.SetThreadPool(r.pool))
	r.x = r.c.NewTensor(ggml.F32, 8).SetInput()
	y := r.c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		if w.Index == w.Count-1 && r.call != nil {
			r.result = r.call()
		}
		return nil
	}, 0, r.x)
	r.graph = r.c.NewGraph(r.c.Neg(y))
	require.NoError(t, r.alloc.Allocate(r.graph))
	require.NoError(t, ggml.Write(r.x, make([]float32, 8)))
	return r
}

// busy requires that call, inside compute, fails at once.
func (r *reentry) busy(t *testing.T, compute func() error, call func() error) {
	r.call, r.result = call, nil
	ends(t, func() { require.NoError(t, compute()) })
	require.ErrorIs(t, r.result, ggml.ErrBusy)
	require.ErrorContains(t, r.result, "use it after the computation")
}

// A function that would deadlock gets an error.
func TestCustomReentry(t *testing.T) {
	ctx := context.Background()
	for _, threads := range []int{1, 3} {
		r := newReentry(t, threads)
		other := r.c.NewGraph(r.c.Abs(r.x))
		bytes := make([]byte, 4)
		constant := ggml.NewContext()
		defer constant.Close()
		ready := constant.NewGraph(constant.Neg(constant.NewF32(1)))
		buffers := need.Value(constant.Allocate(ggml.CPUBufferType()))(t)
		defer buffers.Close()
		calls := map[string]func() error{
			"Backend.Compute":               func() error { return r.backend.Compute(ctx, r.graph) },
			"Backend.Compute other":         func() error { return r.backend.Compute(ctx, ready) },
			"Backend.ComputeAsync":          func() error { return r.backend.ComputeAsync(ctx, r.graph) },
			"Backend.SetThreads":            func() error { return r.backend.SetThreads(1) },
			"Backend.SetThreadPool":         func() error { return r.backend.SetThreadPool(nil) },
			"Backend.SetUseRef":             func() error { return r.backend.SetUseRef(true) },
			"Backend.Synchronize":           func() error { return r.backend.Synchronize() },
			"Backend.WriteAsync":            func() error { return r.backend.WriteAsync(r.x, bytes, 0) },
			"Backend.ReadAsync":             func() error { return r.backend.ReadAsync(r.x, bytes, 0) },
			"CopyTensorAsync":               func() error { return ggml.CopyTensorAsync(r.backend, r.backend, r.x, r.x) },
			"ThreadPool.Pause":              func() error { return r.pool.Pause() },
			"Graph.Backward":                func() error { return r.graph.Backward() },
			"GraphAllocator.Allocate":       func() error { return r.alloc.Allocate(r.graph) },
			"GraphAllocator.Allocate other": func() error { return r.alloc.Allocate(other) },
			"Graph.CopyFrom":                func() error { return r.graph.CopyFrom(other) },
			"Backend.NewPlan": func() error {
				_, err := r.backend.NewPlan(r.graph)
				return err
			},
			"Graph.CopyTo": func() error {
				_, _, err := r.graph.CopyTo(r.backend)
				return err
			},
			"Graph.Clone": func() error {
				_, err := r.graph.Clone(r.c, false)
				return err
			},
			"CompareBackends": func() error {
				return r.graph.CompareBackends(ctx, ggml.CompareOptions{First: r.backend, Second: optest.NewCPUBackend(t, 1), Compare: func(int, *ggml.Tensor, *ggml.Tensor) error { return nil }})
			},
		}
		for name, call := range calls {
			t.Run(name, func(t *testing.T) {
				r.busy(t, func() error { return r.backend.Compute(ctx, r.graph) }, call)
			})
		}
		require.NoError(t, r.backend.SetThreads(1), "the backend is as good as before")
		require.NoError(t, r.alloc.Allocate(other))
	}
}

// A graph change without an error result leaves the error in the context.
func TestCustomReentryExpand(t *testing.T) {
	for name, change := range map[string]func(r *reentry){
		"Expand": func(r *reentry) { r.graph.Expand(r.c.Abs(r.x)) },
		"Clear":  func(r *reentry) { r.graph.Clear() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReentry(t, 2)
			r.busy(t, func() error { return r.backend.Compute(context.Background(), r.graph) }, func() error {
				change(r)
				return r.c.Err()
			})
		})
	}
}

func TestCustomReentryScheduler(t *testing.T) {
	ctx := context.Background()
	r := newReentry(t, 2)
	require.NoError(t, r.backend.SetThreadPool(nil))
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 8).SetInput()
	y := c.MapCustom(func(w ggml.Worker, _ ggml.CustomTensor, _ ...ggml.CustomTensor) error {
		if w.Index == 0 && r.call != nil {
			r.result = r.call()
		}
		return nil
	}, 0, x)
	g := c.NewGraph(y)
	s := optest.NewScheduler(t, r.backend)
	require.NoError(t, s.Allocate(g))
	require.NoError(t, ggml.Write(x, make([]float32, 8)))
	calls := map[string]func() error{
		"Allocate":         func() error { return s.Allocate(g) },
		"Reserve":          func() error { return s.Reserve(g) },
		"Compute":          func() error { return s.Compute(ctx, g) },
		"Reset":            func() error { return s.Reset() },
		"Synchronize":      func() error { return s.Synchronize() },
		"SetTensorBackend": func() error { return s.SetTensorBackend(y, r.backend) },
		"SetEvalCallback":  func() error { return s.SetEvalCallback(nil, nil) },
		"its backend":      func() error { return r.backend.SetThreads(2) },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			r.busy(t, func() error { return s.Compute(ctx, g) }, call)
		})
	}
	r.call = func() error {
		require.Zero(t, s.NumGraphSplits())
		require.Zero(t, s.BufferSize(r.backend))
		require.False(t, optest.Finds(s.TensorBackend(y)))
		return nil
	}
	ends(t, func() { require.NoError(t, s.Compute(ctx, g)) })

	// Scheduler callbacks follow the same rules.
	r.call = nil
	for name, call := range calls {
		t.Run("eval callback "+name, func(t *testing.T) {
			require.NoError(t, s.SetEvalCallback(nil, func(*ggml.Tensor) error {
				r.result = call()
				return nil
			}))
			r.busy(t, func() error { return s.Compute(ctx, g) }, nil)
		})
	}
	require.NoError(t, s.SetEvalCallback(nil, nil))
	ends(t, func() {
		compare := func(int, *ggml.Tensor, *ggml.Tensor) error {
			require.ErrorIs(t, r.backend.SetThreads(1), ggml.ErrBusy)
			return nil
		}
		require.NoError(t, g.CompareBackends(ctx, ggml.CompareOptions{First: r.backend, Second: optest.NewCPUBackend(t, 1), Compare: compare}))
	})
}

func TestCustomReentryOptimizer(t *testing.T) {
	c, b := ggml.NewContext(), optest.NewCPUBackend(t, 2)
	defer c.Close()
	var o *ggml.Optimizer
	result := need.Value(ggml.NewOptResult())(t)
	defer result.Close()
	calls := 0
	x := c.NewTensor(ggml.F32, 4, 2)
	y := c.MapCustom(func(w ggml.Worker, _ ggml.CustomTensor, _ ...ggml.CustomTensor) error {
		if o == nil || w.Index > 0 {
			return nil
		}
		calls++
		require.Nil(t, o.Loss())
		require.Zero(t, o.Iteration())
		require.Zero(t, result.NumSamples())
		require.ErrorIs(t, o.Eval(nil), ggml.ErrBusy)
		require.ErrorIs(t, o.Allocate(false), ggml.ErrBusy)
		require.ErrorIs(t, result.Reset(), ggml.ErrBusy)
		return o.Close()
	}, 0, x)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(x, make([]float32, 8)))
	o = need.Value(ggml.NewOptimizer(ggml.OptimizerOptions{Build: ggml.BuildForward, Inputs: x, Outputs: y}, b))(t)
	defer o.Close()
	require.NoError(t, o.Allocate(false))
	ends(t, func() { require.NoError(t, o.Eval(result)) })
	require.Equal(t, 1, calls)
	require.EqualValues(t, 2, result.NumSamples())
}

// A function may compute on another backend, whose functions must not use the first one; other
// goroutines wait as usual.
func TestCustomReentryNested(t *testing.T) {
	ctx := context.Background()
	outer, inner := newReentry(t, 3), newReentry(t, 2)
	inner.call = func() error { return outer.backend.SetThreads(1) }
	outer.call = func() error { return inner.backend.Compute(ctx, inner.graph) }
	ends(t, func() { require.NoError(t, outer.backend.Compute(ctx, outer.graph)) })
	require.NoError(t, outer.result)
	require.ErrorIs(t, inner.result, ggml.ErrBusy)

	done := make(chan error, 1)
	inner.call, inner.result = nil, nil
	outer.call = func() error {
		go func() { done <- outer.backend.SetThreads(2) }()
		return inner.backend.SetThreads(1)
	}
	ends(t, func() { require.NoError(t, outer.backend.Compute(ctx, outer.graph)) })
	require.NoError(t, outer.result)
	require.NoError(t, <-done)
}

// All threads of a function may compute on another backend at once: they wait
// for each other.
func TestCustomThreadsShareBackend(t *testing.T) {
	ctx := context.Background()
	inner, b := newReentry(t, 2), optest.NewCPUBackend(t, 4)
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 8)
	y := c.MapCustom(func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error {
		return inner.backend.Compute(ctx, inner.graph)
	}, 0, x)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(x, make([]float32, 8)))
	ends(t, func() { require.NoError(t, b.Compute(ctx, c.NewGraph(y))) })
}
