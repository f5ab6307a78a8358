package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// otherMemory returns a buffer type of the CPU other than the usual one, if there is one for plain
// data.
func otherMemory(t *testing.T) *ggml.BufferType {
	for _, d := range must(ggml.Devices()) {
		if bt := d.BufferType(); bt.IsHost() && bt.Name() != ggml.CPUBufferType().Name() {
			return bt
		}
	}
	return ggml.CPUBufferType()
}

func TestGraphAllocatorPlacement(t *testing.T) {
	w := optest.NewWorkbench(t)
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
	require.NoError(t, a.Allocate(again))
	values := optest.Normal(8, 1000)
	require.NoError(t, ggml.Write(x, values))
	require.NoError(t, w.Backend.Compute(t.Context(), again))
	for y := range again.Nodes() {
		if y.Op() == "neg" {
			require.Equal(t, -values[7]*values[7], optest.Values(t, y)[7])
		}
	}

	other := w.NewGraph(w.Sum(w.Neg(w.Context.NewTensor(ggml.F32, 2000).SetInput())).SetOutput())
	err := a.Allocate(other)
	require.ErrorContains(t, err, "the graph is not like the one that was reserved; call Reserve or ReserveIn with it first")
	require.NotErrorIs(t, err, ggml.ErrOutOfMemory)
	require.NoError(t, a.Reserve(other))
	require.NoError(t, a.Allocate(other))

	require.ErrorContains(t, a.ReserveIn(g, ggml.Placement{Leaves: 2}), "leaves in buffer type 2: the allocator has 2, counted from 0")
	require.ErrorContains(t, a.ReserveIn(g, ggml.Placement{Nodes: func(*ggml.Tensor) int { return -1 }}), "in buffer type -1: the allocator has 2")
	require.ErrorContains(t, a.ReserveIn(nil, second), "the graph is nil")
	require.ErrorContains(t, a.ReserveIn(w.NewGraph(), second), "the graph is empty")
	a.Close()
	require.ErrorIs(t, a.ReserveIn(g, second), ggml.ErrClosed)
	require.Equal(t, []int64{0, 0}, a.Sizes())
	_, err = ggml.NewGraphAllocator()
	require.ErrorContains(t, err, "a buffer type is nil, or none is given")
	_, err = ggml.NewGraphAllocator(ggml.CPUBufferType(), nil)
	require.ErrorContains(t, err, "a buffer type is nil, or none is given")
}

func TestContextAllocSize(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	require.Zero(t, must(c.AllocSize(ggml.CPUBufferType())))
	a := c.NewTensor(ggml.F32, 100, 3)
	c.Reshape(a, 300)
	c.NewTensor(ggml.Q8_0, 32)
	size := must(c.AllocSize(ggml.CPUBufferType()))
	require.GreaterOrEqual(t, size, int64(1200+34))
	buffers := must(c.Allocate(ggml.CPUBufferType()))
	require.Equal(t, size, buffers.Size())
	require.Zero(t, must(c.AllocSize(ggml.CPUBufferType())))
	buffers.Close()
	_, err := c.AllocSize(nil)
	require.ErrorContains(t, err, "the buffer type is nil")
	c.Close()
	_, err = c.AllocSize(ggml.CPUBufferType())
	require.ErrorIs(t, err, ggml.ErrClosed)
}

// ggml reuses its memory plan for the next graph with the same number of nodes, even if a leaf is
// now unallocated.
func TestAllocatorReservesAgain(t *testing.T) {
	backend, s := optest.NewCPUBackend(t, 1), (*ggml.Scheduler)(nil)
	alloc := optest.NewGraphAllocator(t)
	s = optest.NewScheduler(t, backend)
	for range 3 {
		for _, size := range []int64{4, 1000, 50} {
			leaves, c := ggml.NewContext(), ggml.NewContext()
			x := leaves.NewTensor(ggml.F32, size).SetInput()
			buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
			g := c.NewGraph(c.View(c.SqrInPlace(c.View(x, []int64{size}, nil, 0)), []int64{2}, nil, 0))
			for _, a := range []interface{ Allocate(*ggml.Graph) error }{alloc, s} {
				require.NoError(t, a.Allocate(g))
			}
			buffers.Close()
			for _, a := range []interface{ Allocate(*ggml.Graph) error }{s, alloc} {
				require.NoError(t, a.Allocate(g))
				require.NoError(t, x.SetFloat32s(make([]float32, size)))
				require.NoError(t, backend.Compute(t.Context(), g))
			}
			c.Close()
			leaves.Close()
		}
	}
	// A leaf that nothing uses, and one that only views use.
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 4)
	require.NoError(t, s.Allocate(c.NewGraph(x)))
	require.NoError(t, s.Allocate(c.NewGraph(c.Reshape(x, 2, 2))))
}

// The next graph of an allocator takes over the memory.
func TestAllocatorReuse(t *testing.T) {
	b := newAddition(t)
	b.works(t)
	z := b.c.Mul(b.a, b.a)
	second := b.c.NewGraph(z)
	bad := b.c.NewGraph()
	require.ErrorContains(t, b.alloc.Allocate(bad), "the graph is empty")
	b.works(t) // a graph that cannot be allocated leaves the last one allocated
	require.NoError(t, b.alloc.Allocate(second))
	require.False(t, b.y.IsAllocated())
	require.ErrorIs(t, b.compute(), ggml.ErrNotAllocated)
	require.NoError(t, b.backend.Compute(context.Background(), second))
	require.NoError(t, b.alloc.Reserve(b.graph))
	require.False(t, z.IsAllocated())
	require.NoError(t, b.alloc.Allocate(b.graph))
	b.works(t)
	require.Positive(t, b.alloc.Size())
	b.alloc.Close()
	require.Zero(t, b.alloc.Size())
	require.False(t, b.y.IsAllocated())
}

// Intermediate results share memory, and cannot be read or written.
func TestIntermediateResults(t *testing.T) {
	b := newAddition(t)
	x := b.c.NewTensor(ggml.F32, 4).SetName("x").SetInput()
	inner := b.c.Mul(x, b.a).SetName("inner")
	g := b.c.NewGraph(b.c.Sqr(inner))
	require.NoError(t, b.alloc.Allocate(g))
	require.NoError(t, ggml.Write(x, []float32{1, 1, 1, 1}))
	require.NoError(t, b.backend.Compute(context.Background(), g))
	_, err := ggml.Read[float32](inner)
	require.ErrorContains(t, err, "ggml: Read(inner f32[4]): the graph may have reused the memory of this tensor; call SetOutput on it before the graph is allocated")
	require.ErrorContains(t, ggml.CopyTensor(b.a, inner), "call SetOutput")
	require.ErrorContains(t, ggml.CopyTensor(inner, b.a), "call SetInput")
	require.ErrorContains(t, ggml.Write(inner, []float32{1, 1, 1, 1}), "call SetInput")

	// A view of an input counts as an input.
	y := b.c.NewTensor(ggml.F32, 4, 2)
	column := b.c.View(y, []int64{1, 2}, []int64{16}, 4).SetInput()
	g = b.c.NewGraph(b.c.Add(y, b.a), column)
	require.NoError(t, b.alloc.Allocate(g))
	require.NoError(t, y.Memset(0))
	require.NoError(t, ggml.Write(column, []float32{5, 6}))
	require.NoError(t, b.backend.Compute(context.Background(), g))
}

// A graph's leaf that no node uses is also made unallocated.
func TestGraphOfOneLeaf(t *testing.T) {
	b := newAddition(t)
	x := b.c.NewTensor(ggml.F32, 3).SetInput()
	g := b.c.NewGraph(x)
	require.NoError(t, b.alloc.Allocate(g))
	require.NoError(t, ggml.Write(x, []float32{1, 2, 3}))
	got := need.Value(ggml.Read[float32](x))(t)
	require.Equal(t, []float32{1, 2, 3}, got)
	require.NoError(t, b.backend.Compute(context.Background(), g))
	b.alloc.Close()
	require.False(t, x.IsAllocated())
}
