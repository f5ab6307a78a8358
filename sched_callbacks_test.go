package ggml_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// steps is a graph of n steps, each of which adds 1 to x, and its result.
func steps(t testing.TB, n int) (*ggml.Graph, *ggml.Tensor) {
	x := leaves(t, 2, 4)
	require.NoError(t, ggml.Write(x[1], []float32{1, 1, 1, 1}))
	c := ggml.NewContext()
	t.Cleanup(func() { c.Close() })
	y := x[0]
	for range n {
		y = c.Add(y, x[1])
	}
	return c.NewGraph(y), y
}

// The callbacks get each node they want, in order, with its values, which the
// graph overwrites later.
func TestEvalCallback(t *testing.T) {
	g, y := steps(t, 6)
	nodes := slices.Collect(g.Nodes())
	s := scheduler(t, cpuBackend(t, 2))
	require.NoError(t, s.Alloc(g))

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

// A failure of either function stops the computation and is its error.
func TestEvalCallbackFailure(t *testing.T) {
	g, y := steps(t, 6)
	nodes := slices.Collect(g.Nodes())
	bad := errors.New("not a number")
	s := scheduler(t, cpuBackend(t, 2))
	require.NoError(t, s.Alloc(g))
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
			got, err := ggml.Read[float32](y)
			require.NoError(t, err)
			require.Equal(t, []float32{6, 7, 8, 9}, got)
		}
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	require.NoError(t, s.SetEvalCallback(nil, func(*ggml.Tensor) error { cancel(stop); time.Sleep(time.Millisecond); return nil }))
	require.Equal(t, stop, s.Compute(ctx, g))
	s.Close()
	require.ErrorIs(t, s.SetEvalCallback(nil, nil), ggml.ErrClosed)
	require.ErrorIs(t, s.SetReallocCallback(nil), ggml.ErrClosed)
	require.Nil(t, s.TensorBackend(y))
	_, err := s.Profile(context.Background(), g)
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// The scheduler says when it takes more memory, and Reserve prevents that.
func TestReallocCallback(t *testing.T) {
	small, _ := steps(t, 2)
	_, x := steps(t, 1)
	large := x.Context().NewGraph(x.Context().Repeat(x, 4, 1000))
	s := scheduler(t, cpuBackend(t, 1), cpuBackend(t, 1))
	var grown int
	require.NoError(t, s.SetReallocCallback(func(backends, size bool) {
		grown++
		require.True(t, backends || size)
	}))
	require.NoError(t, s.Reserve(small))
	require.NoError(t, s.Alloc(small))
	before := grown
	require.NoError(t, s.Alloc(large))
	require.Greater(t, grown, before)
	before = grown
	require.NoError(t, s.Alloc(large))
	require.NoError(t, s.Alloc(small))
	require.NoError(t, s.Alloc(large))
	require.Equal(t, before, grown)

	require.NoError(t, s.Reset())
	other := scheduler(t, cpuBackend(t, 1), cpuBackend(t, 1))
	require.NoError(t, other.Reserve(small))
	require.NoError(t, other.SetReallocCallback(func(bool, bool) { panic("no") }))
	require.ErrorContains(t, other.Alloc(large), "the callback: the function panicked: no")
	require.NoError(t, other.SetReallocCallback(nil))
	require.NoError(t, other.Alloc(large))
	require.NoError(t, other.Compute(context.Background(), large))
}

// A scheduler that is dropped together with what its callbacks refer to is
// collected.
func TestCallbackLifetime(t *testing.T) {
	captureLog(t)
	b := cpuBackend(t, 1)
	x := leaves(t, 1, 4)[0]
	var freed atomic.Int64
	func() {
		s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, b)
		require.NoError(t, err)
		runtime.AddCleanup(s, func(int) { freed.Add(1) }, 0)
		c := ggml.NewContext()
		defer c.Close()
		g := c.NewGraph(c.Neg(x))
		require.NoError(t, s.Alloc(g))
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
	}, 5*time.Second, 5*time.Millisecond)
}

// A profile has every node; the nodes that take the time come first.
func TestProfile(t *testing.T) {
	g, y := chain(t, 3, 192)
	c := y.Context()
	for range 5 {
		g.Expand(c.Scale(y, 2))
	}
	b := cpuBackend(t, 1)
	s := scheduler(t, b)
	require.NoError(t, s.Alloc(g))
	calls := 0
	require.NoError(t, s.SetEvalCallback(nil, func(*ggml.Tensor) error { calls++; return nil }))
	var p ggml.Profile
	for attempt := 0; attempt == 0 || attempt < 20 && p.ByOp()[0].Op != "mul_mat"; attempt++ {
		var err error // a busy machine may interrupt any op
		p, err = s.Profile(context.Background(), g)
		require.NoError(t, err)
	}
	require.Zero(t, calls)
	require.Len(t, p, 8)
	i := 0
	for n := range g.Nodes() {
		require.True(t, n.Is(p[i].Tensor))
		require.Same(t, b, p[i].Backend)
		require.Same(t, b, s.TensorBackend(n))
		i++
	}
	slow := p.Slowest()
	require.True(t, slices.IsSortedFunc(slow, func(a, b ggml.NodeTime) int { return int(b.Time - a.Time) }))
	ops := p.ByOp()
	require.Equal(t, "mul_mat", ops[0].Op)
	require.Equal(t, 3, ops[0].Nodes)
	require.Equal(t, 5, ops[1].Nodes)
	require.Equal(t, p.Total(), ops[0].Time+ops[1].Time)
	lines := strings.Split(p.String(), "\n")
	require.Equal(t, []string{"op", "device", "nodes", "time", "share"}, strings.Fields(lines[0]))
	require.Equal(t, []string{"mul_mat", "CPU", "3"}, strings.Fields(lines[1])[:3])
	require.Len(t, lines, 4)
	require.NoError(t, s.Compute(context.Background(), g))
	require.Equal(t, 8, calls)
	require.Nil(t, s.TensorBackend(nil))
	require.Empty(t, ggml.Profile(nil).ByOp())
}
