package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

func TestMemoryReport(t *testing.T) {
	before := reportOf(t)
	require.Positive(t, before.Total)
	require.Positive(t, before.Free)
	backend := need.Value(ggml.NewCPUBackend(1))(t)
	defer backend.Close()

	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 1<<18)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.EqualValues(t, 1<<20, reportOf(t).Other-before.Other)
	buffers.SetUsage(ggml.UsageWeights)
	require.EqualValues(t, 1<<20, reportOf(t).Weights-before.Weights)
	require.Equal(t, before.Other, reportOf(t).Other)

	alloc := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
	defer alloc.Close()
	require.NoError(t, alloc.Allocate(c.NewGraph(c.Sqr(x))))
	require.Positive(t, alloc.Size())
	require.Equal(t, alloc.Size(), reportOf(t).Compute-before.Compute)

	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, backend))(t)
	defer s.Close()
	require.NoError(t, s.Allocate(c.NewGraph(c.Sqrt(x))))
	require.Positive(t, s.BufferSize(backend))
	require.Equal(t, alloc.Size()+s.BufferSize(backend), reportOf(t).Compute-before.Compute)
	require.Regexp(t, `^CPU: .* free of .*B; weights .*, compute .*, other .*B$`, reportOf(t).String())

	s.Close()
	alloc.Close()
	buffers.Close()
	after := reportOf(t)
	require.Equal(t, before.Weights, after.Weights)
	require.Equal(t, before.Compute, after.Compute)
	require.Equal(t, before.Other, after.Other)
}
