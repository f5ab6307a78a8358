package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestSchedulerErrors(t *testing.T) {
	b := newAddition(t)
	_, err := ggml.NewScheduler(ggml.SchedulerOptions{})
	require.EqualError(t, err, "ggml: scheduler: there is no backend; the last one must be a CPU backend")
	_, err = ggml.NewScheduler(ggml.SchedulerOptions{}, b.backend, nil)
	require.EqualError(t, err, "ggml: scheduler: a backend is nil")
	for _, m := range optest.Devices(t) {
		if m.Device.Type() != ggml.CPU {
			_, err = ggml.NewScheduler(ggml.SchedulerOptions{}, b.backend, m.Backends[0])
			require.EqualError(t, err, "ggml: scheduler: the backends are CPU, "+m.Name+"; the last one must be a CPU backend, which computes what the others do not")
			want := "ggml: add(y f32[4]): " + m.Name + " does not support this op on these types and shapes; use a Scheduler with a backend that does (at "
			if !m.Device.SupportsBufferType(ggml.CPUBufferType()) {
				want = "ggml: add(y f32[4], a f32[4]): the last of these is in memory that " + m.Name + " cannot access; use a Scheduler, which copies it (at "
			}
			require.ErrorContains(t, m.Backends[0].Compute(context.Background(), b.graph), want)
		}
	}

	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, b.backend))(t)
	first, second := b.c.NewGraph(b.c.Abs(b.a)), b.c.NewGraph(b.c.Neg(b.a))
	require.NoError(t, s.Allocate(first))
	err = s.Compute(context.Background(), second)
	require.ErrorIs(t, err, ggml.ErrNotAllocated)
	require.ErrorContains(t, err, "ggml: Scheduler.Compute(graph of 1 nodes): the graph is not the one that the scheduler allocated last; call Allocate first (at sched_test.go:")
	require.NoError(t, s.Compute(context.Background(), first))
	require.NoError(t, s.Reset())
	require.Error(t, s.Compute(context.Background(), first))
	require.ErrorContains(t, s.SetTensorBackend(b.a, nil), "the backend is not one of the scheduler's")
	require.ErrorContains(t, s.SetTensorBackend(nil, b.backend), "the tensor is nil")
	require.Zero(t, s.BufferSize(nil))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorContains(t, s.Allocate(first), "ggml: Scheduler.Allocate(graph of 1 nodes): the scheduler is closed (at ")
	require.ErrorContains(t, s.Compute(context.Background(), first), "the scheduler is closed")
	require.ErrorIs(t, s.Reset(), ggml.ErrClosed)
	require.Zero(t, s.NumGraphSplits())
}
