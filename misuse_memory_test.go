package ggml_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// bench is a small graph y = a + a with what is needed to compute it.
type bench struct {
	c       *ggml.Context
	a, y    *ggml.Tensor
	graph   *ggml.Graph
	buffers *ggml.Buffers
	alloc   *ggml.GraphAllocator
	backend *ggml.Backend
}

// newBench makes y = a + a, with a = [1 2 3 4] in a buffer and y allocated.
func newBench(t testing.TB) *bench {
	leaves := ggml.NewContext()
	b := &bench{c: ggml.NewContext(), a: leaves.NewTensor(ggml.F32, 4).SetName("a")}
	b.y = b.c.Add(b.a, b.a).SetName("y")
	b.graph = b.c.NewGraph(b.y)
	var err error
	b.buffers, err = leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	require.NoError(t, ggml.Write(b.a, []float32{1, 2, 3, 4}))
	b.alloc, err = ggml.NewGraphAllocator(ggml.CPUBufferType())
	require.NoError(t, err)
	require.NoError(t, b.alloc.Alloc(b.graph))
	b.backend, err = ggml.NewCPUBackend(1)
	require.NoError(t, err)
	t.Cleanup(func() {
		b.backend.Close()
		b.alloc.Close()
		b.buffers.Close()
		b.c.Close()
		leaves.Close()
	})
	return b
}

func (b *bench) compute() error { return b.backend.Compute(context.Background(), b.graph) }

func (b *bench) works(t testing.TB) {
	t.Helper()
	require.NoError(t, b.compute())
	got, err := ggml.Read[float32](b.y)
	require.NoError(t, err)
	require.Equal(t, []float32{2, 4, 6, 8}, got)
}

// Every failed use of memory says what failed, why and where.
func TestMemoryErrors(t *testing.T) {
	bg, none, o := context.Background(), context.Context(nil), ggml.SchedulerOptions{}
	cases := []struct {
		do   func(b *bench) error
		want string // without the caller
		is   error
	}{
		{func(b *bench) error { return ggml.Write(b.a, []float32{1}) }, "set(a f32[4]): the tensor has 4 elements, the slice 1", nil},
		{func(b *bench) error { return ggml.Write(b.a, []int32{1, 2, 3, 4}) }, "set(a f32[4]): the tensor has type f32, the slice holds i32", nil},
		{func(b *bench) error { _, err := ggml.Read[ggml.Float16](b.a); return err }, "get(a f32[4]): the tensor has type f32, the slice holds f16", nil},
		{func(b *bench) error { return ggml.ReadInto(make([]float32, 5), b.a) }, "get(a f32[4]): the tensor has 4 elements, the slice 5", nil},
		{func(b *bench) error { return b.a.ReadBytes(make([]byte, 4), 13) }, "get(a f32[4]): 4 bytes at offset 13 reach beyond the tensor, which has 16", nil},
		{func(b *bench) error { return b.a.ReadBytes(make([]byte, 4), -1) }, "get(a f32[4]): 4 bytes at offset -1 reach beyond the tensor, which has 16", nil},
		{func(b *bench) error { return b.a.WriteBytes(make([]byte, 1), math.MaxInt64) }, "set(a f32[4]): 1 bytes at offset 9223372036854775807 reach beyond the tensor, which has 16", nil},
		{func(b *bench) error { return b.a.WriteBytes(nil, 17) }, "set(a f32[4]): 0 bytes at offset 17 reach beyond the tensor, which has 16", nil},
		{func(b *bench) error { return b.a.SetFloat32s(nil) }, "set(a f32[4]): the tensor has 4 elements, the slice 0", nil},
		{func(b *bench) error { return ggml.Write(nil, []float32{1}) }, "set(nil): the tensor is nil", nil},
		{func(b *bench) error { return ggml.CopyTensor(b.a, nil) }, "tensor_copy(nil, a f32[4]): a tensor is nil", nil},
		{func(b *bench) error { return ggml.CopyTensor(b.a, b.c.NewTensor(ggml.F32, 3)) }, "tensor_copy(leaf f32[3], a f32[4]): type, shape and layout must be equal", nil},
		{func(b *bench) error { return ggml.Write(b.y, []float32{1, 2, 3, 4}) }, "set(y f32[4]): the graph may overwrite this tensor before it is used; call SetInput on it before the graph is allocated", nil},
		{func(b *bench) error { return b.y.Fill(0) }, "memset(y f32[4]): the graph may overwrite this tensor before it is used; call SetInput on it before the graph is allocated", nil},

		{func(b *bench) error { return ggml.Write(b.c.NewTensor(ggml.F32, 1), []float32{1}) }, "set(leaf f32[1]): the tensor has no memory; allocate its context or its graph first", ggml.ErrNotAllocated},
		{func(b *bench) error { _, err := b.c.NewTensor(ggml.F32, 1<<50).Float32s(); return err }, "get(leaf f32[1125899906842624]): the tensor has no memory; allocate its context or its graph first", ggml.ErrNotAllocated},
		{func(b *bench) error { return b.backend.Compute(bg, b.c.NewGraph(b.c.Abs(b.a))) }, "abs(abs() f32[4]): the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler", ggml.ErrNotAllocated},
		{func(b *bench) error { return b.backend.Compute(bg, nil) }, "graph_compute(nil): the graph is nil", nil},
		{func(b *bench) error { return b.backend.Compute(none, b.graph) }, "graph_compute(graph of 1 nodes): the context.Context is nil", nil},
		{func(b *bench) error { return b.backend.Compute(bg, b.c.NewGraph()) }, "graph_compute(graph of 0 nodes): the graph is empty; add tensors by Expand", nil},
		{func(b *bench) error { return b.alloc.Alloc(nil) }, "alloc_graph(nil): the graph is nil", nil},
		{func(b *bench) error { _, err := b.c.Allocate(nil); return err }, "alloc_ctx_tensors: the buffer type is nil", nil},

		{func(b *bench) error { b.backend.Close(); return b.backend.Compute(bg, b.graph) }, "graph_compute(graph of 1 nodes): the backend is closed", ggml.ErrClosed},
		{func(b *bench) error { b.alloc.Close(); return b.backend.Compute(bg, b.graph) }, "add(y f32[4]): the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler", ggml.ErrNotAllocated},
		{func(b *bench) error { b.buffers.Close(); return b.backend.Compute(bg, b.graph) }, "add(y f32[4], a f32[4]): the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler", ggml.ErrNotAllocated},
		{func(b *bench) error { b.buffers.Close(); return ggml.Write(b.a, []float32{1, 2, 3, 4}) }, "set(a f32[4]): the tensor has no memory; allocate its context or its graph first", ggml.ErrNotAllocated},
		{func(b *bench) error { b.a.Context().Close(); return b.backend.Compute(bg, b.graph) }, "graph_compute(graph of 1 nodes): the context is closed", ggml.ErrClosed},
		{func(b *bench) error { b.c.Close(); return b.backend.Compute(bg, b.graph) }, "graph_compute(graph of 0 nodes): the context is closed", ggml.ErrClosed},
		{func(b *bench) error { b.c.Close(); _, err := b.y.Float32s(); return err }, "get((closed) f32[4]): the context is closed", ggml.ErrClosed},
		{func(b *bench) error { b.alloc.Close(); return b.alloc.Alloc(b.graph) }, "alloc_graph(graph of 1 nodes): the graph allocator is closed", ggml.ErrClosed},
		{func(b *bench) error { b.c.Close(); return b.alloc.Alloc(b.graph) }, "alloc_graph(graph of 0 nodes): the context is closed", ggml.ErrClosed},
		{func(b *bench) error { b.backend.Close(); return b.backend.SetThreads(1) }, "backend: use of a closed object", ggml.ErrClosed},
		{func(b *bench) error { b.backend.Close(); return b.backend.Synchronize() }, "backend: use of a closed object", ggml.ErrClosed},
		{func(b *bench) error { b.backend.Close(); _, err := ggml.NewScheduler(o, b.backend); return err }, "backend: use of a closed object", ggml.ErrClosed},
		{func(b *bench) error { b.buffers.Close(); return b.buffers.Clear(0) }, "buffer: use of a closed object", ggml.ErrClosed},
	}
	for _, k := range cases {
		b := newBench(t)
		b.works(t)
		err := k.do(b)
		require.EqualError(t, err, fmt.Sprintf("ggml: %s (at %s)", k.want, line(k.do)))
		if k.is != nil {
			require.ErrorIs(t, err, k.is)
		}
	}
}

func TestTensorAllocatorErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x, y := c.NewTensor(ggml.F32, 100).SetName("x"), c.NewTensor(ggml.F32, 200).SetName("y")
	v := c.View(x, []int64{10}, nil, 0).SetName("v")
	b, err := ggml.CPUBufferType().NewBuffer(1000)
	require.NoError(t, err)
	defer b.Close()
	a, err := ggml.NewTensorAllocator(b)
	require.NoError(t, err)
	require.NoError(t, a.Alloc(x))
	err = a.Alloc(y)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.ErrorContains(t, err, "ggml: tensor_alloc(y f32[200]): the buffer is too small: the tensor takes 800 bytes, ")
	require.False(t, y.Allocated())
	require.ErrorContains(t, a.Alloc(x), "ggml: tensor_alloc(x f32[100]): the tensor has memory already (at misuse_memory_test.go:")
	require.ErrorContains(t, a.Alloc(v), "ggml: tensor_alloc(v f32[10]): the tensor is a view; it gets the memory of what it is a view of")
	require.ErrorContains(t, a.Alloc(nil), "ggml: tensor_alloc(nil): the tensor is nil")
	require.NoError(t, a.Alloc(c.NewTensor(ggml.F32, 1))) // the failures took no room

	b.Close()
	require.ErrorContains(t, a.Alloc(y), "ggml: tensor_alloc(y f32[200]): the buffer is closed")
	require.False(t, x.Allocated())
	require.Zero(t, b.Size())
	require.Nil(t, b.Type())
	b.SetUsage(ggml.UsageWeights)
	_, err = ggml.NewTensorAllocator(b)
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = ggml.NewTensorAllocator(nil)
	require.EqualError(t, err, "ggml: tensor allocator: the buffer is nil")
}

func TestBufferErrors(t *testing.T) {
	bt := ggml.CPUBufferType()
	_, err := bt.NewBuffer(-1)
	require.ErrorContains(t, err, "ggml: a buffer of -1 bytes: CPU holds 0 to ")
	_, err = bt.NewBuffer(math.MaxInt64)
	require.ErrorContains(t, err, "ggml: a buffer of 9223372036854775807 bytes: CPU holds 0 to ")
	captureLog(t)
	_, err = bt.NewBuffer(1 << 55)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	b, err := bt.NewBuffer(0)
	require.NoError(t, err)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.NoError(t, (*ggml.Buffer)(nil).Close())

	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 1<<53)
	_, err = c.Allocate(bt)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
}

// A view remembers the address of what it looks at.
func TestViewsOfFreedMemory(t *testing.T) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x := leaves.NewTensor(ggml.F32, 8)
	before := leaves.View(x, []int64{2}, nil, 8)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	after, other := leaves.View(x, []int64{2}, nil, 8), c.View(x, []int64{2}, nil, 8)
	views := tensors{before, after, other}
	for _, v := range views {
		require.True(t, v.Allocated())
		require.True(t, v.IsView())
	}

	buffers.Close()
	for _, v := range views {
		require.False(t, v.Allocated())
		_, err := ggml.Read[float32](v)
		require.ErrorIs(t, err, ggml.ErrNotAllocated)
	}
	keep, err := ggml.CPUBufferType().NewBuffer(32) // so that x gets another address
	require.NoError(t, err)
	defer keep.Close()
	buffers, err = leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	more, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer more.Close()
	require.NoError(t, ggml.Write(x, []float32{0, 1, 2, 3, 4, 5, 6, 7}))
	for _, v := range views {
		got, err := ggml.Read[float32](v)
		require.NoError(t, err)
		require.Equal(t, []float32{2, 3}, got)
	}
}

// The next graph of an allocator takes over the memory.
func TestAllocatorReuse(t *testing.T) {
	b := newBench(t)
	b.works(t)
	z := b.c.Mul(b.a, b.a)
	second := b.c.NewGraph(z)
	bad := b.c.NewGraph()
	require.ErrorContains(t, b.alloc.Alloc(bad), "the graph is empty")
	b.works(t) // a graph that cannot be allocated leaves the one before in place
	require.NoError(t, b.alloc.Alloc(second))
	require.False(t, b.y.Allocated())
	require.ErrorIs(t, b.compute(), ggml.ErrNotAllocated)
	require.NoError(t, b.backend.Compute(context.Background(), second))
	require.NoError(t, b.alloc.Reserve(b.graph))
	require.False(t, z.Allocated())
	require.NoError(t, b.alloc.Alloc(b.graph))
	b.works(t)
	require.Positive(t, b.alloc.Size())
	b.alloc.Close()
	require.Zero(t, b.alloc.Size())
	require.False(t, b.y.Allocated())
}

// Nodes in between share memory, and cannot be read or written.
func TestIntermediateResults(t *testing.T) {
	b := newBench(t)
	x := b.c.NewTensor(ggml.F32, 4).SetName("x").SetInput()
	inner := b.c.Mul(x, b.a).SetName("inner")
	g := b.c.NewGraph(b.c.Sqr(inner))
	require.NoError(t, b.alloc.Alloc(g))
	require.NoError(t, ggml.Write(x, []float32{1, 1, 1, 1}))
	require.NoError(t, b.backend.Compute(context.Background(), g))
	_, err := ggml.Read[float32](inner)
	require.ErrorContains(t, err, "ggml: get(inner f32[4]): the graph may have reused the memory of this tensor; call SetOutput on it before the graph is allocated")
	require.ErrorContains(t, ggml.CopyTensor(b.a, inner), "call SetOutput")
	require.ErrorContains(t, ggml.CopyTensor(inner, b.a), "call SetInput")
	require.ErrorContains(t, ggml.Write(inner, []float32{1, 1, 1, 1}), "call SetInput")

	// A view of an input is one too.
	y := b.c.NewTensor(ggml.F32, 4, 2)
	column := b.c.View(y, []int64{1, 2}, []int64{16}, 4).SetInput()
	g = b.c.NewGraph(b.c.Add(y, b.a), column)
	require.NoError(t, b.alloc.Alloc(g))
	require.NoError(t, y.Fill(0))
	require.NoError(t, ggml.Write(column, []float32{5, 6}))
	require.NoError(t, b.backend.Compute(context.Background(), g))
}

// A graph's leaf that no node uses is given back too.
func TestLoneLeaf(t *testing.T) {
	b := newBench(t)
	x := b.c.NewTensor(ggml.F32, 3).SetInput()
	g := b.c.NewGraph(x)
	require.NoError(t, b.alloc.Alloc(g))
	require.NoError(t, ggml.Write(x, []float32{1, 2, 3}))
	got, err := ggml.Read[float32](x)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3}, got)
	require.NoError(t, b.backend.Compute(context.Background(), g))
	b.alloc.Close()
	require.False(t, x.Allocated())
}

func TestRowIndexOutOfRange(t *testing.T) {
	for _, bad := range []int32{-1, 3, math.MaxInt32} {
		c := ggml.NewContext()
		m, all := c.NewTensor(ggml.F32, 2, 3).SetName("m"), c.NewTensor(ggml.I32, 4).SetName("ids")
		some := c.View(all, []int64{2}, nil, 8).SetName("some")
		whole, part := c.NewGraph(c.GetRows(m, all)), c.NewGraph(c.GetRows(m, some))
		write := c.NewGraph(c.SetRows(m, c.NewTensor(ggml.F32, 2, 4), all))
		buffers, err := c.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		b, err := ggml.NewCPUBackend(2)
		require.NoError(t, err)
		require.NoError(t, ggml.Write(all, []int32{0, 1, 2, bad}))
		for g, want := range map[*ggml.Graph]string{
			whole: fmt.Sprintf("ggml: get_rows(get_rows() f32[2, 4], ids i32[4]): row index %d is out of range: there are 3 rows (at misuse_memory_test.go:", bad),
			part:  fmt.Sprintf("ggml: get_rows(get_rows() f32[2, 2], some i32[2]): row index %d is out of range: there are 3 rows", bad),
			write: fmt.Sprintf("ggml: set_rows(m (view) f32[2, 3], ids i32[4]): row index %d is out of range: there are 3 rows", bad),
		} {
			require.ErrorContains(t, b.Compute(context.Background(), g), want)
		}
		require.NoError(t, ggml.Write(all, []int32{0, 1, 2, 2}))
		require.NoError(t, b.Compute(context.Background(), whole))
		b.Close()
		buffers.Close()
		c.Close()
	}
}

// What was found of a graph holds for the next computations as long as nothing
// that it depends on has changed.
func TestGraphChecksAgain(t *testing.T) {
	b := newBench(t)
	leaves := ggml.NewContext()
	defer leaves.Close()
	matrix, ids := leaves.NewTensor(ggml.F32, 4, 3), leaves.NewTensor(ggml.I32, 2).SetName("ids")
	allocate := func() *ggml.Buffers {
		buffers, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		require.NoError(t, ggml.Write(ids, []int32{0, 2}))
		return buffers
	}
	buffers := allocate()
	g := b.c.NewGraph(b.c.GetRows(matrix, ids), b.c.GetRows(matrix, ids))
	alloc := graphAllocator(t)
	require.NoError(t, alloc.Alloc(g))
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
	require.NoError(t, alloc.Alloc(b.graph))
	require.ErrorIs(t, compute(), ggml.ErrNotAllocated)
	require.NoError(t, alloc.Alloc(g))
	require.NoError(t, compute())
	// Another device, and another node.
	for _, m := range machines(t) {
		if !m.device.SupportsBufferType(ggml.CPUBufferType()) {
			require.ErrorContains(t, m.backends[0].Compute(context.Background(), g), "has no access to")
		}
	}
	require.NoError(t, compute())
	g.Expand(b.c.Neg(b.a))
	require.ErrorIs(t, compute(), ggml.ErrNotAllocated)
}

func TestGraphErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 3).SetName("x")
	y := c.Sum(c.Sqr(x)).SetName("y")
	plain := c.NewGraph(y)
	require.ErrorContains(t, plain.Backward(), "ggml: build_backward_expand(graph of 2 nodes): the graph has no room for gradients; make it by NewTrainingGraph (at misuse_memory_test.go:")
	require.Nil(t, plain.Grad(x))
	g := c.NewTrainingGraph(y)
	require.ErrorContains(t, g.Backward(), "no tensor of the graph is marked as the loss; call SetLoss")
	require.Nil(t, g.Grad(x))
	y.SetLoss()
	require.ErrorContains(t, g.Backward(), "no tensor of the graph is marked as a parameter; call SetParam")
	x.SetParam()
	for want, z := range map[string]*ggml.Tensor{
		"ggml: build_backward_expand(tanh() f32[3]): this op has no backward":                          c.Tanh(x),
		"ggml: build_backward_expand(norm() f32[3]): this op has no backward":                          c.Norm(x, 1e-5),
		"ggml: build_backward_expand(swiglu() f32[3]): this op has no backward":                        c.GLU(ggml.SwiGLU, c.Repeat(x, 6), false),
		"ggml: build_backward_expand(clamp() f32[3]): this op has no backward":                         c.Clamp(x, 0, 1),
		"ggml: build_backward_expand(x (view) f32[3]): this op works in place, and so has no backward": c.AddInPlace(x, x),
		"ggml: build_backward_expand(soft_max() f32[3]): this op has no backward":                      c.SoftMaxExt(x, c.NewTensor(ggml.F32, 3), 1, 8),
	} {
		require.ErrorContains(t, c.NewTrainingGraph(c.Sum(z).SetLoss()).Backward(), want)
	}
	require.NoError(t, c.Err())
	vector := c.Sqr(x).SetName("v").SetLoss()
	require.ErrorContains(t, c.NewTrainingGraph(vector).Backward(), "ggml: build_backward_expand(v f32[3]): the loss must be a single f32 number; call Sum")
	require.ErrorIs(t, g.Reset(), ggml.ErrNotAllocated)
	trained := c.NewTrainingGraph(y)
	require.NoError(t, trained.Backward())
	require.NotNil(t, trained.Grad(x))
	require.Nil(t, trained.Grad(nil))
	require.ErrorContains(t, trained.Backward(), "the graph has its gradients already")
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.ErrorContains(t, plain.Reset(), "the graph has no gradients; call Backward first")
	require.NoError(t, trained.Reset())
}

// What Go does not check reaches an assertion of the library: the guard makes
// it an error, and everything works on.
func TestGuard(t *testing.T) {
	b := newBench(t)
	for range 100 {
		c := ggml.NewContext()
		x, y := c.NewTensor(ggml.F32, 4, 2).SetParam(), c.NewTensor(ggml.F32, 4).SetParam()
		g := c.NewTrainingGraph(c.Sum(c.Sub(x, y)).SetLoss())
		err := g.Backward() // has no rule for a repeated operand
		require.ErrorContains(t, err, "ggml: build_backward_expand(graph of ")
		require.ErrorContains(t, err, "GGML_ASSERT(!src1_needs_grads || ggml_are_same_shape(src1, cgraph->grads[isrc1])) failed (at misuse_memory_test.go:")
		require.Equal(t, err, c.Err())
		c.Close()
	}
	// A scheduler that has no room for a graph.
	s, err := ggml.NewScheduler(ggml.SchedulerOptions{GraphSize: 1}, b.backend)
	require.NoError(t, err)
	defer s.Close()
	z := b.a
	for range 100 {
		z = b.c.Abs(z)
	}
	err = s.Alloc(b.c.NewGraph(z))
	require.ErrorContains(t, err, "ggml: alloc_graph(graph of 100 nodes): with its leaves it has more than 1 tensors; make the scheduler with a larger GraphSize (at ")
	b.works(t)
}

func TestSchedulerErrors(t *testing.T) {
	b := newBench(t)
	_, err := ggml.NewScheduler(ggml.SchedulerOptions{})
	require.EqualError(t, err, "ggml: scheduler: there is no backend; the last one must be a CPU backend")
	_, err = ggml.NewScheduler(ggml.SchedulerOptions{}, b.backend, nil)
	require.EqualError(t, err, "ggml: scheduler: a backend is nil")
	for _, m := range machines(t) {
		if m.device.Type() != ggml.CPU {
			_, err = ggml.NewScheduler(ggml.SchedulerOptions{}, b.backend, m.backends[0])
			require.EqualError(t, err, "ggml: scheduler: the backends are CPU, "+m.name+"; the last one must be a CPU backend, which computes what the others do not")
			want := "ggml: add(y f32[4]): " + m.name + " does not support this op on these types and shapes; use a Scheduler with a backend that does (at "
			if !m.device.SupportsBufferType(ggml.CPUBufferType()) {
				want = "ggml: add(y f32[4], a f32[4]): the last of these lies in memory that " + m.name + " has no access to; use a Scheduler, which copies it (at "
			}
			require.ErrorContains(t, m.backends[0].Compute(context.Background(), b.graph), want)
		}
	}

	s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, b.backend)
	require.NoError(t, err)
	first, second := b.c.NewGraph(b.c.Abs(b.a)), b.c.NewGraph(b.c.Neg(b.a))
	require.NoError(t, s.Alloc(first))
	err = s.Compute(context.Background(), second)
	require.ErrorIs(t, err, ggml.ErrNotAllocated)
	require.ErrorContains(t, err, "ggml: sched_graph_compute(graph of 1 nodes): the graph is not the one that the scheduler allocated last; call Alloc first (at misuse_memory_test.go:")
	require.NoError(t, s.Compute(context.Background(), first))
	require.NoError(t, s.Reset())
	require.Error(t, s.Compute(context.Background(), first))
	require.ErrorContains(t, s.SetTensorBackend(b.a, nil), "the backend is not one of the scheduler's")
	require.ErrorContains(t, s.SetTensorBackend(nil, b.backend), "the tensor is nil")
	require.Zero(t, s.BufferSize(nil))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorContains(t, s.Alloc(first), "ggml: alloc_graph(graph of 1 nodes): the scheduler is closed (at ")
	require.ErrorContains(t, s.Compute(context.Background(), first), "the scheduler is closed")
	require.ErrorIs(t, s.Reset(), ggml.ErrClosed)
	require.Zero(t, s.NumSplits())
}

func TestMissingBackends(t *testing.T) {
	_, err := ggml.LoadBackend(filepath.Join(t.TempDir(), "libggml-none.so"))
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorIs(t, err, os.ErrNotExist)

	captureLog(t)
	garbage := filepath.Join(t.TempDir(), "libggml-garbage.so")
	require.NoError(t, os.WriteFile(garbage, []byte("no library"), 0o600))
	_, err = ggml.LoadBackend(garbage)
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorContains(t, err, "libggml-garbage.so")

	_, err = ggml.DeviceByName("nope")
	require.ErrorIs(t, err, ggml.ErrNotLoaded)
	require.ErrorContains(t, err, `ggml: device "nope": backend is not loaded; the devices are `)
	require.ErrorContains(t, err, "CPU")

	for name, k := range map[string]struct {
		devices func() ([]*ggml.Device, error)
		open    func() (*ggml.Backend, error)
		hint    string
	}{
		"CUDA": {ggml.CUDADevices, func() (*ggml.Backend, error) { return ggml.NewCUDABackend(0) }, "apt-get install libggml0-backend-cuda"},
		"MTL":  {ggml.MetalDevices, ggml.NewMetalBackend, "brew install ggml"},
	} {
		if _, err := k.devices(); err == nil {
			continue // this machine has it
		}
		_, err := k.devices()
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
		require.ErrorContains(t, err, "ggml: "+name+" backend is not loaded: ")
		require.ErrorContains(t, err, k.hint)
		_, err = k.open()
		require.ErrorIs(t, err, ggml.ErrNotLoaded)
	}
	_, err = ggml.NewCPUBackend(-1)
	require.ErrorContains(t, err, "ggml: -1 threads: a backend takes 1 to ")
}
