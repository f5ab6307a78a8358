package ggml_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
)

func threadPool(t testing.TB, p ggml.ThreadPoolParams) *ggml.ThreadPool {
	pool := need.Value(ggml.NewThreadPool(p))(t)
	t.Cleanup(func() { pool.Close() })
	return pool
}

// A backend computes with the threads of its pool.
func TestThreadPool(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	x := optest.Leaves(t, 1, 4)[0]
	c := ggml.NewContext()
	defer c.Close()
	var workers int
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		if w.Index == 0 {
			workers = w.Count
		}
		return sum(w, dst, src...)
	}, 0, x)
	g := c.NewGraph(y)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	compute := func() int {
		require.NoError(t, b.Compute(context.Background(), g))
		got := need.Value(ggml.Read[float32](y))(t)
		require.Equal(t, []float32{1, 2, 3, 4}, got)
		return workers
	}
	require.Equal(t, 1, compute())
	for _, p := range []ggml.ThreadPoolParams{
		{Threads: 2},
		{Threads: 3, Paused: true, Poll: 100},
		{Threads: 2, Priority: ggml.PriorityLow},
		{Threads: 2, CPUs: []int{0}, StrictCPU: true},
		{Threads: 1, CPUs: []int{0}},
		ggml.DefaultThreadPoolParams(2),
	} {
		pool := threadPool(t, p)
		require.Equal(t, p.Threads, pool.NumThreads())
		require.NoError(t, b.SetThreadPool(pool))
		require.Equal(t, p.Threads, compute())
		require.NoError(t, pool.Pause())
		require.Equal(t, p.Threads, compute())
		require.NoError(t, pool.Resume())
		require.NoError(t, b.SetThreads(1))
		require.Equal(t, 1, compute())
		require.ErrorContains(t, b.SetThreads(p.Threads+1), "the thread pool of the backend has")
		pool.Close()
		require.ErrorIs(t, pool.Pause(), ggml.ErrClosed)
		require.ErrorIs(t, b.SetThreadPool(pool), ggml.ErrClosed)
		require.Equal(t, 1, compute(), "the backend still has the pool")
	}
	require.NoError(t, b.SetThreadPool(nil))
	require.NoError(t, b.SetThreads(2))
	require.Equal(t, 2, compute())
	require.NoError(t, b.SetUseRef(true))
	require.Equal(t, 2, compute())
	require.NoError(t, b.SetUseRef(false))
}

func TestThreadPoolMisuse(t *testing.T) {
	for says, p := range map[string]ggml.ThreadPoolParams{
		"-1 threads: a pool has 1 to 512":                 {Threads: -1},
		"513 threads: a pool has 1 to 512":                {Threads: 513},
		"there is no priority 4":                          {Priority: 4},
		"there is no priority -2":                         {Priority: -2},
		"poll is 101; it must be 0 to 100":                {Poll: 101},
		"ggml: thread pool: CPU -1: they are numbered 0 ": {CPUs: []int{0, -1}},
		"CPU 512: they are numbered 0 to 511":             {CPUs: []int{512}},
	} {
		_, err := ggml.NewThreadPool(p)
		require.ErrorContains(t, err, says)
		require.False(t, p.Matches(p))
	}
	def := ggml.DefaultThreadPoolParams(0)
	require.Equal(t, ggml.DefaultThreads(), def.Threads)
	require.True(t, def.Matches(ggml.DefaultThreadPoolParams(def.Threads)))
	other := def
	other.CPUs = []int{1}
	require.False(t, def.Matches(other))

	pool := threadPool(t, ggml.ThreadPoolParams{Threads: 1})
	require.ErrorContains(t, ggml.InitNUMA(-1), "there is no NUMA strategy -1")
	require.ErrorContains(t, ggml.InitNUMA(5), "there is no NUMA strategy 5")
	b := optest.NewCPUBackend(t, 1)
	b.Close()
	require.ErrorIs(t, b.SetThreadPool(pool), ggml.ErrClosed)
	require.ErrorIs(t, b.SetUseRef(true), ggml.ErrClosed)
	for _, d := range allDevices(t) {
		if d.Type() == ggml.CPU {
			continue
		}
		b := need.Value(d.NewBackend())(t)
		require.ErrorContains(t, b.SetThreadPool(pool), "takes no thread pool; a CPU backend does")
		require.ErrorContains(t, b.SetUseRef(true), "has no reference code; a CPU backend does")
		b.Close()
	}
}

// Backends that share a pool wait for each other; changes of pools wait too.
func TestThreadPoolShared(t *testing.T) {
	pools := []*ggml.ThreadPool{threadPool(t, ggml.ThreadPoolParams{Threads: 2}), threadPool(t, ggml.ThreadPoolParams{Threads: 2})}
	x := optest.Leaves(t, 1, 64, 64)[0]
	var wg testutil.Goroutines
	var backends []*ggml.Backend
	for range 3 {
		backends = append(backends, optest.NewCPUBackend(t, 2))
	}
	for i, b := range backends {
		alloc := optest.NewGraphAllocator(t)
		wg.Go(func() {
			c := ggml.NewContext()
			defer c.Close()
			y := c.MapCustom(sum, 0, c.MulMat(x, x))
			g := c.NewGraph(y)
			if err := alloc.Allocate(g); err != nil {
				t.Error(err)
			}
			var first []float32
			for k := range 30 {
				err := errors.Join(backends[(i+k)%3].SetThreadPool(pools[k%2]), pools[k%2].Pause(), b.Compute(context.Background(), g))
				if err != nil {
					t.Error(err)
				}
				got, _ := ggml.Read[float32](y)
				if first = append(first, got...)[:len(got)]; !slices.Equal(got, first) {
					t.Error("another result")
				}
			}
		})
	}
	wg.Wait()
	s := optest.NewScheduler(t, backends...)
	g, _ := steps(t, 4)
	require.NoError(t, s.Allocate(g))
	require.NoError(t, s.Compute(context.Background(), g))
}

// The computing thread does not keep the pool's CPUs and priority.
func TestThreadPoolLeavesThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := threadStatus()
	if err != nil {
		t.Skip("the system does not tell: ", err)
	}
	b := optest.NewCPUBackend(t, 2)
	require.NoError(t, b.SetThreadPool(threadPool(t, ggml.ThreadPoolParams{Threads: 2, CPUs: []int{0}, Priority: ggml.PriorityLow})))
	var during string
	var duringErr error
	x := optest.Leaves(t, 1, 4)[0]
	c := ggml.NewContext()
	defer c.Close()
	y := c.MapCustom(func(w ggml.Worker, dst ggml.CustomTensor, src ...ggml.CustomTensor) error {
		if w.Index == 0 {
			during, duringErr = threadStatus()
		}
		return nil
	}, 0, x)
	g := c.NewGraph(y)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.NoError(t, b.Compute(context.Background(), g))
	require.NoError(t, duringErr)
	after := need.Value(threadStatus())(t)
	require.Equal(t, before, after)
	if runtime.NumCPU() > 1 {
		require.NotEqual(t, before, during)
	}
}
