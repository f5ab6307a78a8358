package ggml_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A graph is computed as it was planned or allocated, or it is an error.
func TestChangedGraphs(t *testing.T) {
	ctx := context.Background()
	b := optest.NewCPUBackend(t, 1)
	x := optest.Leaves(t, 1, 8)[0]
	require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4, 5, 6, 7, 8}))
	c := ggml.NewContext()
	defer c.Close()
	first, second := c.Sqr(x), c.Neg(x)
	own := need.Value(c.Allocate(b.BufferType()))(t)
	defer own.Close()

	for name, change := range map[string]func(*ggml.Graph){
		"cleared": func(g *ggml.Graph) { g.Clear(); g.Expand(second) },
		"copied":  func(g *ggml.Graph) { require.NoError(t, g.CopyFrom(c.NewGraph(second))) },
		"grown":   func(g *ggml.Graph) { g.Expand(second) },
	} {
		g := c.NewGraph(first)
		p := need.Value(b.NewPlan(g))(t)
		s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, b))(t)
		require.NoError(t, s.Allocate(g))
		require.NoError(t, p.Compute(ctx))
		require.NoError(t, s.Compute(ctx, g))
		change(g)
		require.ErrorContains(t, p.Compute(ctx), "make another plan", name)
		require.ErrorContains(t, s.Compute(ctx, g), "call Allocate again", name)
		require.ErrorContains(t, s.ComputeAsync(ctx, g), "call Allocate again", name)
		require.NoError(t, s.Allocate(g))
		require.NoError(t, s.Compute(ctx, g))
		got := need.Value(ggml.Read[float32](second))(t)
		require.Equal(t, []float32{-1, -2, -3, -4, -5, -6, -7, -8}, got)
		p.Close()
		s.Close()
	}
}

// A cleared graph runs only the Go functions and checks of its current nodes.
func TestCustomsOfClearedGraphs(t *testing.T) {
	b := optest.NewCPUBackend(t, 1)
	x := optest.Leaves(t, 1, 8)[0]
	require.NoError(t, ggml.Write(x, make([]float32, 8)))
	c := ggml.NewContext()
	defer c.Close()
	broken := errors.New("broken")
	good := c.MapCustom(func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return nil }, 1, x)
	bad := c.MapCustom(func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return broken }, 1, x)
	own := need.Value(c.Allocate(b.BufferType()))(t)
	defer own.Close()
	g := c.NewGraph(good)
	require.NoError(t, b.Compute(context.Background(), g))
	g.Clear()
	g.Expand(bad)
	require.ErrorIs(t, b.Compute(context.Background(), g), broken)
}

// A closed context behind an operand is an error, too.
func TestClosedRoots(t *testing.T) {
	for name, use := range map[string]func(between, last *ggml.Context, x *ggml.Tensor) (broken func() *ggml.Tensor){
		"view of another context": func(between, _ *ggml.Context, x *ggml.Tensor) func() *ggml.Tensor {
			v := between.View(x, []int64{4}, nil, 0)
			return func() *ggml.Tensor { return between.Reshape(v, 2, 2) }
		},
		"view in a third": func(between, last *ggml.Context, x *ggml.Tensor) func() *ggml.Tensor {
			v := between.View(x, []int64{4}, nil, 0)
			return func() *ggml.Tensor { return last.SqrInPlace(v) }
		},
	} {
		first, between, last := ggml.NewContext(), ggml.NewContext(), ggml.NewContext()
		broken := use(between, last, first.NewTensor(ggml.F32, 8))
		require.NoError(t, first.Close())
		_, err := broken().Float32s()
		require.ErrorIs(t, err, ggml.ErrClosed, name)
		require.ErrorContains(t, err, "the context of the source of operand 0, a view, is closed", name)
		between.Close()
		last.Close()
	}

	// Row indices are traced through contexts to their source.
	first, between := ggml.NewContext(), ggml.NewContext()
	defer between.Close()
	ids := between.ArgSort(first.NewTensor(ggml.F32, 4), ggml.Ascending)
	require.NoError(t, first.Close())
	g := between.NewGraph(between.GetRows(between.NewTensor(ggml.F32, 4, 4), ids))
	require.ErrorIs(t, optest.NewCPUBackend(t, 1).Compute(context.Background(), g), ggml.ErrClosed)
}

// A scheduler is queried with tensors of other graphs and of closed contexts.
func TestSchedulerOfForeignTensors(t *testing.T) {
	cpu := optest.NewCPUBackend(t, 1)
	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 16}, cpu))(t)
	defer s.Close()
	for range 200 {
		c := ggml.NewContext()
		x := c.NewTensor(ggml.F32, 4)
		y := c.Neg(x)
		require.False(t, optest.Finds(s.TensorBackend(y)))
		require.NoError(t, s.SetTensorBackend(y, cpu))
		require.NoError(t, s.Allocate(c.NewGraph(y)))
		require.Same(t, cpu, optest.Found(s.TensorBackend(y)))
		require.Same(t, cpu, optest.Found(s.TensorBackend(x)))
		require.False(t, optest.Finds(s.TensorBackend(c.Sqr(x))))
		c.Close()
		require.False(t, optest.Finds(s.TensorBackend(y)))
	}
	first, second := ggml.NewContext(), ggml.NewContext()
	defer second.Close()
	y := second.Neg(first.NewTensor(ggml.F32, 4))
	require.NoError(t, s.SplitGraph(second.NewGraph(y)))
	require.Same(t, cpu, optest.Found(s.TensorBackend(y)))
	first.Close()
	require.False(t, optest.Finds(s.TensorBackend(y)))
	require.NoError(t, s.Reset())
}

// The result of a graph's check is reused until a dependency of it changes.
func TestGraphChecksAgain(t *testing.T) {
	b := newAddition(t)
	leaves := ggml.NewContext()
	defer leaves.Close()
	matrix, ids := leaves.NewTensor(ggml.F32, 4, 3), leaves.NewTensor(ggml.I32, 2).SetName("ids")
	allocate := func() *ggml.Buffers {
		buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
		require.NoError(t, ggml.Write(ids, []int32{0, 2}))
		return buffers
	}
	buffers := allocate()
	g := b.c.NewGraph(b.c.GetRows(matrix, ids), b.c.GetRows(matrix, ids))
	alloc := optest.NewGraphAllocator(t)
	require.NoError(t, alloc.Allocate(g))
	compute := func() error { return b.backend.Compute(context.Background(), g) }
	for range 3 {
		require.NoError(t, compute())
		require.NoError(t, ggml.Write(ids, []int32{1, 3}))
		for range 2 {
			require.ErrorContains(t, compute(), "row index 3 is out of range: there are 3 rows")
		}
		require.NoError(t, ggml.Write(ids, []int32{1, 2}))
		require.NoError(t, compute())
	}
	// Other memory of a leaf, then of the results.
	require.NoError(t, buffers.Close())
	require.ErrorIs(t, compute(), ggml.ErrNotAllocated)
	defer allocate().Close()
	require.NoError(t, compute())
	require.NoError(t, alloc.Allocate(b.graph))
	require.ErrorIs(t, compute(), ggml.ErrNotAllocated)
	require.NoError(t, alloc.Allocate(g))
	require.NoError(t, compute())
	// Another device, and another node.
	for _, m := range optest.Devices(t) {
		if !m.Device.SupportsBufferType(ggml.CPUBufferType()) {
			require.ErrorContains(t, m.Backends[0].Compute(context.Background(), g), "cannot access")
		}
	}
	require.NoError(t, compute())
	g.Expand(b.c.Neg(b.a))
	require.ErrorIs(t, compute(), ggml.ErrNotAllocated)
}
