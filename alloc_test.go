package ggml_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Every failed use of memory names what failed, why and where.
func TestMemoryErrors(t *testing.T) {
	bg, none, o := context.Background(), context.Context(nil), ggml.SchedulerOptions{}
	cases := []struct {
		do   func(b *addition) error
		want string // without the caller's line
		is   error
	}{
		{func(b *addition) error { return ggml.Write(b.a, []float32{1}) }, "Write(a f32[4]): the tensor has 4 elements, the slice 1", nil},
		{func(b *addition) error { return ggml.Write(b.a, []int32{1, 2, 3, 4}) }, "Write(a f32[4]): the tensor has type f32, the slice holds i32", nil},
		{func(b *addition) error { _, err := ggml.Read[ggml.Float16](b.a); return err }, "Read(a f32[4]): the tensor has type f32, the slice holds f16", nil},
		{func(b *addition) error { return ggml.ReadInto(make([]float32, 5), b.a) }, "ReadInto(a f32[4]): the tensor has 4 elements, the slice 5", nil},
		{func(b *addition) error { return optest.Err(b.a.ReadAt(make([]byte, 4), 13)) }, "Tensor.ReadAt(a f32[4]): 4 bytes at offset 13 reach beyond the tensor, which has 16", nil},
		{func(b *addition) error { return optest.Err(b.a.ReadAt(make([]byte, 4), -1)) }, "Tensor.ReadAt(a f32[4]): 4 bytes at offset -1 reach beyond the tensor, which has 16", nil},
		{func(b *addition) error { return optest.Err(b.a.WriteAt(make([]byte, 1), math.MaxInt64)) }, "Tensor.WriteAt(a f32[4]): 1 bytes at offset 9223372036854775807 reach beyond the tensor, which has 16", nil},
		{func(b *addition) error { return optest.Err(b.a.WriteAt(nil, 17)) }, "Tensor.WriteAt(a f32[4]): 0 bytes at offset 17 reach beyond the tensor, which has 16", nil},
		{func(b *addition) error { return b.a.SetFloat32s(nil) }, "Tensor.SetFloat32s(a f32[4]): the tensor has 4 elements, the slice 0", nil},
		{func(b *addition) error { return ggml.Write(nil, []float32{1}) }, "Write(nil): the tensor is nil", nil},
		{func(b *addition) error { return ggml.CopyTensor(b.a, nil) }, "CopyTensor(nil, a f32[4]): a tensor is nil", nil},
		{func(b *addition) error { return ggml.CopyTensor(b.a, b.c.NewTensor(ggml.F32, 3)) }, "CopyTensor(leaf f32[3], a f32[4]): type, shape and layout must be equal", nil},
		{func(b *addition) error { return ggml.Write(b.y, []float32{1, 2, 3, 4}) }, "Write(y f32[4]): the graph may overwrite this tensor before it is used; call SetInput on it before the graph is allocated", nil},
		{func(b *addition) error { return b.y.Memset(0) }, "Tensor.Memset(y f32[4]): the graph may overwrite this tensor before it is used; call SetInput on it before the graph is allocated", nil},

		{func(b *addition) error { return ggml.Write(b.c.NewTensor(ggml.F32, 1), []float32{1}) }, "Write(leaf f32[1]): the tensor has no memory; allocate its context or its graph first", ggml.ErrNotAllocated},
		{func(b *addition) error { _, err := b.c.NewTensor(ggml.F32, 1<<50).Float32s(); return err }, "Tensor.Float32s(leaf f32[1125899906842624]): the tensor has no memory; allocate its context or its graph first", ggml.ErrNotAllocated},
		{func(b *addition) error { return b.backend.Compute(bg, b.c.NewGraph(b.c.Abs(b.a))) }, "abs(abs() f32[4]): the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler", ggml.ErrNotAllocated},
		{func(b *addition) error { return b.backend.Compute(bg, nil) }, "Backend.Compute(nil): the graph is nil", nil},
		{func(b *addition) error { return b.backend.Compute(none, b.graph) }, "Backend.Compute(graph of 1 nodes): the context.Context is nil", nil},
		{func(b *addition) error { return b.backend.Compute(bg, b.c.NewGraph()) }, "Backend.Compute(graph of 0 nodes): the graph is empty; add tensors by Expand", nil},
		{func(b *addition) error { return b.alloc.Allocate(nil) }, "GraphAllocator.Allocate(nil): the graph is nil", nil},
		{func(b *addition) error { _, err := b.c.Allocate(nil); return err }, "Context.Allocate: the buffer type is nil", nil},

		{func(b *addition) error { b.backend.Close(); return b.backend.Compute(bg, b.graph) }, "Backend.Compute(graph of 1 nodes): the backend is closed", ggml.ErrClosed},
		{func(b *addition) error { b.alloc.Close(); return b.backend.Compute(bg, b.graph) }, "add(y f32[4]): the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler", ggml.ErrNotAllocated},
		{func(b *addition) error { b.buffers.Close(); return b.backend.Compute(bg, b.graph) }, "add(y f32[4], a f32[4]): the last of these has no memory; allocate its context, or the graph with a GraphAllocator or a Scheduler", ggml.ErrNotAllocated},
		{func(b *addition) error { b.buffers.Close(); return ggml.Write(b.a, []float32{1, 2, 3, 4}) }, "Write(a f32[4]): the tensor has no memory; allocate its context or its graph first", ggml.ErrNotAllocated},
		{func(b *addition) error { b.a.Context().Close(); return b.backend.Compute(bg, b.graph) }, "Backend.Compute(graph of 1 nodes): the context is closed", ggml.ErrClosed},
		{func(b *addition) error { b.c.Close(); return b.backend.Compute(bg, b.graph) }, "Backend.Compute(graph of 0 nodes): the context is closed", ggml.ErrClosed},
		{func(b *addition) error { b.c.Close(); _, err := b.y.Float32s(); return err }, "Tensor.Float32s((closed) f32[4]): the context is closed", ggml.ErrClosed},
		{func(b *addition) error { b.alloc.Close(); return b.alloc.Allocate(b.graph) }, "GraphAllocator.Allocate(graph of 1 nodes): the graph allocator is closed", ggml.ErrClosed},
		{func(b *addition) error { b.c.Close(); return b.alloc.Allocate(b.graph) }, "GraphAllocator.Allocate(graph of 0 nodes): the context is closed", ggml.ErrClosed},
		{func(b *addition) error { b.backend.Close(); return b.backend.SetThreads(1) }, "backend: use of a closed object", ggml.ErrClosed},
		{func(b *addition) error { b.backend.Close(); return b.backend.Synchronize() }, "backend: use of a closed object", ggml.ErrClosed},
		{func(b *addition) error { b.backend.Close(); _, err := ggml.NewScheduler(o, b.backend); return err }, "backend: use of a closed object", ggml.ErrClosed},
		{func(b *addition) error { b.buffers.Close(); return b.buffers.Clear(0) }, "buffer: use of a closed object", ggml.ErrClosed},
	}
	for _, k := range cases {
		b := newAddition(t)
		b.works(t)
		err := k.do(b)
		require.EqualError(t, err, fmt.Sprintf("ggml: %s (at %s)", k.want, callerOf(k.do)))
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
	b := need.Value(ggml.CPUBufferType().NewBuffer(1000))(t)
	defer b.Close()
	a := need.Value(ggml.NewTensorAllocator(b))(t)
	require.NoError(t, a.Allocate(x))
	err := a.Allocate(y)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.ErrorContains(t, err, "ggml: TensorAllocator.Allocate(y f32[200]): the buffer is too small: the tensor takes 800 bytes, ")
	require.False(t, y.IsAllocated())
	require.ErrorContains(t, a.Allocate(x), "ggml: TensorAllocator.Allocate(x f32[100]): the tensor has memory already (at alloc_test.go:")
	require.ErrorContains(t, a.Allocate(v), "ggml: TensorAllocator.Allocate(v f32[10]): the tensor is a view, which shares the memory of its source; place the source")
	require.ErrorContains(t, a.Allocate(nil), "ggml: TensorAllocator.Allocate(nil): the tensor is nil")
	require.NoError(t, a.Allocate(c.NewTensor(ggml.F32, 1))) // the failures allocated nothing

	b.Close()
	require.ErrorContains(t, a.Allocate(y), "ggml: TensorAllocator.Allocate(y f32[200]): the buffer is closed")
	require.False(t, x.IsAllocated())
	require.Zero(t, b.Size())
	require.Nil(t, b.Type())
	b.SetUsage(ggml.UsageWeights)
	_, err = ggml.NewTensorAllocator(b)
	require.ErrorIs(t, err, ggml.ErrClosed)
	_, err = ggml.NewTensorAllocator(nil)
	require.EqualError(t, err, "ggml: tensor allocator: the buffer is nil")
}
