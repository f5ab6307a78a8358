package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// otherMemory is a buffer type of the CPU beside the usual one, if it has any
// that holds plain data.
func otherMemory(t *testing.T) *ggml.BufferType {
	for _, d := range must(ggml.Devices()) {
		if bt := d.BufferType(); bt.IsHost() && bt.Name() != ggml.CPUBufferType().Name() {
			return bt
		}
	}
	return ggml.CPUBufferType()
}

func TestGraphAllocatorPlacement(t *testing.T) {
	w := newWorkbench(t)
	a := must(ggml.NewGraphAllocator(ggml.CPUBufferType(), otherMemory(t)))
	defer a.Close()
	build := func() (*ggml.Graph, *ggml.Tensor) {
		x := w.Context.NewTensor(ggml.F32, 1000).SetInput()
		y := w.Neg(w.Sqr(x)).SetOutput()
		return w.NewGraph(y), x
	}
	g, _ := build()
	second := ggml.Placement{Nodes: func(n *ggml.Tensor) int {
		if n.Op() == "neg" {
			return 1
		}
		return 0
	}, Leaves: 1}
	sizes := must(a.SizesFor(g, second))
	require.Len(t, sizes, 2)
	require.Zero(t, a.Size())
	require.NoError(t, a.ReserveIn(g, second))
	require.Equal(t, sizes, a.Sizes())
	require.GreaterOrEqual(t, a.Size(), int64(4000))

	again, x := build()
	require.NoError(t, a.Alloc(again))
	values := normal(8, 1000)
	require.NoError(t, ggml.Write(x, values))
	require.NoError(t, w.backend.Compute(t.Context(), again))
	for y := range again.Nodes() {
		if y.Op() == "neg" {
			require.Equal(t, -values[7]*values[7], numbers(t, y)[7])
		}
	}

	other := w.NewGraph(w.Sum(w.Neg(w.Context.NewTensor(ggml.F32, 2000).SetInput())).SetOutput())
	err := a.Alloc(other)
	require.ErrorContains(t, err, "the graph is not like the one that was reserved; call Reserve or ReserveIn with it first")
	require.NotErrorIs(t, err, ggml.ErrOutOfMemory)
	require.NoError(t, a.Reserve(other))
	require.NoError(t, a.Alloc(other))

	require.ErrorContains(t, a.ReserveIn(g, ggml.Placement{Leaves: 2}), "leaves in buffer type 2: the allocator has 2, counted from 0")
	require.ErrorContains(t, a.ReserveIn(g, ggml.Placement{Nodes: func(*ggml.Tensor) int { return -1 }}), "in buffer type -1: the allocator has 2")
	require.ErrorContains(t, a.ReserveIn(nil, second), "the graph is nil")
	require.ErrorContains(t, a.ReserveIn(w.NewGraph(), second), "the graph is empty")
	a.Close()
	require.ErrorIs(t, a.ReserveIn(g, second), ggml.ErrClosed)
	require.Equal(t, []int64{0, 0}, a.Sizes())
	_, err = ggml.NewGraphAllocator()
	require.ErrorContains(t, err, "a buffer type is nil, or there is none")
	_, err = ggml.NewGraphAllocator(ggml.CPUBufferType(), nil)
	require.ErrorContains(t, err, "a buffer type is nil, or there is none")
}

func TestAllocationSize(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	require.Zero(t, must(c.AllocationSize(ggml.CPUBufferType())))
	a := c.NewTensor(ggml.F32, 100, 3)
	c.Reshape(a, 300)
	c.NewTensor(ggml.Q8_0, 32)
	size := must(c.AllocationSize(ggml.CPUBufferType()))
	require.GreaterOrEqual(t, size, int64(1200+34))
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	require.Equal(t, size, buffers.Size())
	require.Zero(t, must(c.AllocationSize(ggml.CPUBufferType())))
	buffers.Close()
	_, err := c.AllocationSize(nil)
	require.ErrorContains(t, err, "the buffer type is nil")
	c.Close()
	_, err = c.AllocationSize(ggml.CPUBufferType())
	require.ErrorIs(t, err, ggml.ErrClosed)
}
