package ggml_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// The callbacks get each selected node, in order, with its values, which the graph overwrites
// later.
func TestEvalCallback(t *testing.T) {
	g, y := steps(t, 6)
	nodes := slices.Collect(g.Nodes())
	s := optest.NewScheduler(t, optest.NewCPUBackend(t, 2))
	require.NoError(t, s.Allocate(g))

	var values []float32
	var kept *ggml.Tensor
	seen := func(n *ggml.Tensor) error {
		v, err := ggml.Read[float32](n)
		if err != nil {
			return err
		}
		values, kept = append(values, v[1]), n
		return nil
	}
	for name, k := range map[string]struct {
		want   func(*ggml.Tensor) bool
		values []float32
	}{
		"all":    {nil, []float32{2, 3, 4, 5, 6, 7}},
		"some":   {func(n *ggml.Tensor) bool { return n.Is(nodes[1]) || n.Is(nodes[4]) }, []float32{3, 6}},
		"none":   {func(*ggml.Tensor) bool { return false }, nil},
		"middle": {func(n *ggml.Tensor) bool { return n.Is(nodes[2]) }, []float32{4}},
	} {
		values = nil
		require.NoError(t, s.SetEvalCallback(k.want, seen))
		require.NoError(t, s.Compute(context.Background(), g))
		require.Equal(t, k.values, values, name)
		got, err := ggml.Read[float32](y)
		require.NoError(t, err)
		require.Equal(t, []float32{6, 7, 8, 9}, got)
		if name == "middle" {
			_, err = ggml.Read[float32](kept)
			require.ErrorContains(t, err, "the graph may have reused the memory")
		}
	}
	values = nil
	require.NoError(t, s.SetEvalCallback(nil, nil))
	require.NoError(t, s.Compute(context.Background(), g))
	require.Nil(t, values)
}

// An error of either function stops the computation and becomes its error.
func TestEvalCallbackFailure(t *testing.T) {
	g, y := steps(t, 6)
	nodes := slices.Collect(g.Nodes())
	bad := errors.New("not a number")
	s := optest.NewScheduler(t, optest.NewCPUBackend(t, 2))
	require.NoError(t, s.Allocate(g))
	var seen int
	third := func(n *ggml.Tensor) bool { return n.Is(nodes[2]) }
	for says, k := range map[string]struct {
		want func(*ggml.Tensor) bool
		seen func(*ggml.Tensor) error
	}{
		"add(add() f32[4]): the callback: not a number (at sched_callbacks_test.go:": {
			nil, func(n *ggml.Tensor) error {
				if seen++; third(n) {
					return bad
				}
				return nil
			},
		},
		"add(add() f32[4]): the callback: the function panicked: not a number (at ": {
			func(n *ggml.Tensor) bool {
				if third(n) {
					panic(bad)
				}
				return true
			}, func(n *ggml.Tensor) error { seen++; return nil },
		},
	} {
		for range 3 {
			seen = 0
			require.NoError(t, s.SetEvalCallback(k.want, k.seen))
			err := s.Compute(context.Background(), g)
			require.ErrorContains(t, err, says)
			require.ErrorIs(t, err, bad)
			require.LessOrEqual(t, seen, 3)
			require.GreaterOrEqual(t, seen, 2)

			require.NoError(t, s.SetEvalCallback(nil, nil))
			require.NoError(t, s.Compute(context.Background(), g))
			got := need.Value(ggml.Read[float32](y))(t)
			require.Equal(t, []float32{6, 7, 8, 9}, got)
		}
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	require.NoError(t, s.SetEvalCallback(nil, func(*ggml.Tensor) error { cancel(stop); time.Sleep(time.Millisecond); return nil }))
	long, _ := steps(t, 2000) // it need not notice at once, but before all nodes, which take seconds
	require.NoError(t, s.Allocate(long))
	require.Equal(t, stop, s.Compute(ctx, long))
	s.Close()
	require.ErrorIs(t, s.SetEvalCallback(nil, nil), ggml.ErrClosed)
	require.ErrorIs(t, s.SetReallocCallback(nil), ggml.ErrClosed)
	require.False(t, optest.Finds(s.TensorBackend(y)))
	_, err := s.Profile(context.Background(), g)
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// The scheduler calls back when it takes more memory, and Reserve prevents that.
func TestReallocCallback(t *testing.T) {
	small, _ := steps(t, 2)
	_, x := steps(t, 1)
	large := x.Context().NewGraph(x.Context().Repeat(x, 4, 1000))
	s := optest.NewScheduler(t, optest.NewCPUBackend(t, 1), optest.NewCPUBackend(t, 1))
	var grown int
	require.NoError(t, s.SetReallocCallback(func(backends, size bool) {
		grown++
		require.True(t, backends || size)
	}))
	require.NoError(t, s.Reserve(small))
	require.NoError(t, s.Allocate(small))
	before := grown
	require.NoError(t, s.Allocate(large))
	require.Greater(t, grown, before)
	before = grown
	require.NoError(t, s.Allocate(large))
	require.NoError(t, s.Allocate(small))
	require.NoError(t, s.Allocate(large))
	require.Equal(t, before, grown)

	require.NoError(t, s.Reset())
	other := optest.NewScheduler(t, optest.NewCPUBackend(t, 1), optest.NewCPUBackend(t, 1))
	require.NoError(t, other.Reserve(small))
	require.NoError(t, other.SetReallocCallback(func(bool, bool) { panic("no") }))
	require.ErrorContains(t, other.Allocate(large), "the callback: the function panicked: no")
	require.NoError(t, other.SetReallocCallback(nil))
	require.NoError(t, other.Allocate(large))
	require.NoError(t, other.Compute(context.Background(), large))
}

// A scheduler dropped together with the objects that its callbacks refer to is collected.
func TestCallbackLifetime(t *testing.T) {
	captureLog(t)
	b := optest.NewCPUBackend(t, 1)
	x := optest.Leaves(t, 1, 4)[0]
	var freed atomic.Int64
	func() {
		s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, b))(t)
		runtime.AddCleanup(s, func(int) { freed.Add(1) }, 0)
		c := ggml.NewContext()
		defer c.Close()
		g := c.NewGraph(c.Neg(x))
		require.NoError(t, s.Allocate(g))
		require.NoError(t, s.SetEvalCallback(nil, func(n *ggml.Tensor) error {
			if s == nil {
				return errors.New("there is no scheduler")
			}
			return nil
		}))
		require.NoError(t, s.SetReallocCallback(func(bool, bool) { _ = s }))
		require.NoError(t, s.Compute(context.Background(), g))
	}()
	require.Eventually(t, func() bool {
		runtime.GC()
		return freed.Load() == 1
	}, time.Minute, 5*time.Millisecond)
}
