package ggml_test

import (
	"context"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/rss"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Buffers and their types report their properties, on every device.
func TestBufferProperties(t *testing.T) {
	for _, d := range allDevices(t) {
		bt := d.BufferType()
		b := need.Value(bt.NewBuffer(4096))(t)
		defer b.Close()
		require.Equal(t, bt.Name(), b.Name())
		require.Equal(t, bt.Alignment(), b.Alignment())
		require.Equal(t, bt.MaxSize(), b.MaxSize())
		require.Equal(t, bt.IsHost(), b.IsHost())
		require.Equal(t, ggml.UsageAny, b.Usage())
		b.SetUsage(ggml.UsageWeights)
		require.Equal(t, ggml.UsageWeights, b.Usage())
		owner := need.Value(bt.Device())(t)
		require.True(t, owner.SupportsBufferType(bt))
		x := ggml.NewContext()
		defer x.Close()
		a, q := x.NewTensor(ggml.F32, 5), x.NewTensor(ggml.Q4_0, 64, 3)
		n := need.Value(bt.AllocSize(q))(t)
		require.GreaterOrEqual(t, n, q.NumBytes())
		own := need.Value(b.AllocSize(q))(t)
		require.Equal(t, n, own)
		both := need.Value(bt.AllocSize(a, q))(t)
		require.GreaterOrEqual(t, both, n+a.NumBytes())
		none := need.Value(bt.AllocSize())(t)
		require.Zero(t, none)
		b.Close()
		require.Zero(t, b.Alignment()+b.MaxSize())
		require.Empty(t, b.Name())
		_, err := b.AllocSize(q)
		require.ErrorIs(t, err, ggml.ErrClosed)
		x.Close()
		_, err = bt.AllocSize(q)
		require.ErrorIs(t, err, ggml.ErrClosed)
	}
}

func TestBackendBuffer(t *testing.T) {
	b := need.Value(optest.NewCPUBackend(t, 1).NewBuffer(100))(t)
	defer b.Close()
	require.GreaterOrEqual(t, b.Size(), int64(100))
}

// A buffer of the program's memory: its tensors share that memory.
func TestBufferFromMemory(t *testing.T) {
	memory := make([]byte, 1<<16)
	b := need.Value(ggml.NewBufferFrom(memory))(t)
	defer b.Close()
	c := ggml.NewContext()
	defer c.Close()
	x, y := c.NewTensor(ggml.F32, 4), c.NewTensor(ggml.F32, 4)
	require.NoError(t, b.PlaceAt(x, 64))
	require.NoError(t, b.PlaceAt(y, 1<<16-32))
	copy(memory[64:], bytesOf([]float32{1, 2, 3, 4}))
	copy(memory[1<<16-32:], bytesOf([]float32{10, 20, 30, 40}))
	sum := c.Add(x, y)
	g := c.NewGraph(sum)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.NoError(t, optest.NewCPUBackend(t, 1).Compute(context.Background(), g))
	require.Equal(t, []float32{11, 22, 33, 44}, optest.Values(t, sum))
	require.NoError(t, ggml.Write(x, []float32{5, 6, 7, 8}))
	require.Equal(t, bytesOf([]float32{5, 6, 7, 8}), memory[64:80])
	_, err := ggml.NewBufferFrom(memory[1:])
	require.ErrorContains(t, err, "begin at a multiple of 32 bytes")
	_, err = ggml.NewBufferFrom(nil)
	require.ErrorContains(t, err, "0 bytes of memory")
}

func TestPlaceAt(t *testing.T) {
	b := need.Value(ggml.CPUBufferType().NewBuffer(1024))(t)
	defer b.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 128)
	for offset, want := range map[int64]string{
		-32: "is not a multiple of 32", 8: "is not a multiple of 32", 544: "512 bytes at offset 544 reach beyond the buffer, which has 1024",
		1 << 40: "reach beyond the buffer",
	} {
		require.ErrorContains(t, b.PlaceAt(x, offset), want)
	}
	require.ErrorContains(t, b.PlaceAt(nil, 0), "the tensor is nil")
	require.ErrorContains(t, (*ggml.Buffer)(nil).PlaceAt(x, 0), "the buffer is nil")
	require.NoError(t, b.PlaceAt(x, 512))
	require.ErrorContains(t, b.PlaceAt(x, 0), "has memory already")
	whole := c.NewTensor(ggml.F32, 256)
	require.NoError(t, b.PlaceAt(whole, 0)) // they share memory
	require.NoError(t, x.Memset(1))
	require.Equal(t, bytesOf(optest.Values(t, x)), bytesOf(optest.Values(t, whole)[128:]))
	other := ggml.NewContext()
	defer other.Close()
	require.ErrorContains(t, b.Reset(), "2 tensors of a context lie in it")
	c.Close()
	require.NoError(t, b.Reset())
	b.Close()
	require.ErrorIs(t, b.Reset(), ggml.ErrClosed)
	require.ErrorIs(t, b.PlaceAt(other.NewTensor(ggml.F32, 4), 0), ggml.ErrClosed)
}

func TestAllocateTensors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x, y, z := c.NewTensor(ggml.F32, 4), c.NewTensor(ggml.F32, 4), c.NewTensor(ggml.F32, 4)
	buffers := need.Value(ggml.CPUBufferType().Allocate(x, z))(t)
	defer buffers.Close()
	require.True(t, x.IsAllocated() && z.IsAllocated())
	require.False(t, y.IsAllocated())
	_, err := ggml.CPUBufferType().Allocate(x, nil)
	require.ErrorContains(t, err, "the tensor is nil")
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
	b := need.Value(bt.NewBuffer(0))(t)
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.NoError(t, (*ggml.Buffer)(nil).Close())

	c := ggml.NewContext()
	defer c.Close()
	c.NewTensor(ggml.F32, 1<<53)
	_, err = c.Allocate(bt)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
}

// A view stores the address of its source.
func TestViewsOfFreedMemory(t *testing.T) {
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	x := leaves.NewTensor(ggml.F32, 8)
	before := leaves.View(x, []int64{2}, nil, 8)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	after, other := leaves.View(x, []int64{2}, nil, 8), c.View(x, []int64{2}, nil, 8)
	views := tensors{before, after, other}
	for _, v := range views {
		require.True(t, v.IsAllocated())
		require.True(t, v.IsView())
	}

	buffers.Close()
	for _, v := range views {
		require.False(t, v.IsAllocated())
		_, err := ggml.Read[float32](v)
		require.ErrorIs(t, err, ggml.ErrNotAllocated)
	}
	keep, err := ggml.CPUBufferType().NewBuffer(32) // so that x gets another address
	require.NoError(t, err)
	defer keep.Close()
	buffers = need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	more := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer more.Close()
	require.NoError(t, ggml.Write(x, []float32{0, 1, 2, 3, 4, 5, 6, 7}))
	for _, v := range views {
		got := need.Value(ggml.Read[float32](v))(t)
		require.Equal(t, []float32{2, 3}, got)
	}
}

// Where the system has huge pages, a sparse buffer takes only the memory around what is written.
func TestSetSparse(t *testing.T) {
	const size, page = 64 << 20, 2 << 20
	if pages, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil || strings.Contains(string(pages), "[never]") {
		t.Skip("the system has no huge pages for memory that asks for them")
	}
	b := need.Value(ggml.CPUBufferType().NewBuffer(size))(t)
	defer b.Close()
	b.SetSparse()
	before := rss.Now()
	for at := int64(0); at < size; at += page {
		require.NoError(t, b.Memset(1, at, 1))
	}
	require.Less(t, rss.Now(), before+size/4)
	require.NoError(t, b.Close())
	b.SetSparse() // of a closed buffer: nothing
}
