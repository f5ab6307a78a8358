package ggml_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
)

// Buffers and their types tell what they are, on every device.
func TestBufferProperties(t *testing.T) {
	for _, d := range openDevices(t) {
		bt := d.BufferType()
		b, err := bt.NewBuffer(4096)
		require.NoError(t, err)
		defer b.Close()
		require.Equal(t, bt.Name(), b.Name())
		require.Equal(t, bt.Alignment(), b.Alignment())
		require.Equal(t, bt.MaxSize(), b.MaxSize())
		require.Equal(t, bt.IsHost(), b.IsHost())
		require.Equal(t, ggml.UsageAny, b.Usage())
		b.SetUsage(ggml.UsageWeights)
		require.Equal(t, ggml.UsageWeights, b.Usage())
		owner, err := bt.Device()
		require.NoError(t, err)
		require.True(t, owner.SupportsBufferType(bt))
		x := ggml.NewContext()
		defer x.Close()
		a, q := x.NewTensor(ggml.F32, 5), x.NewTensor(ggml.Q4_0, 64, 3)
		n, err := bt.AllocSize(q)
		require.NoError(t, err)
		require.GreaterOrEqual(t, n, q.NumBytes())
		own, err := b.AllocSize(q)
		require.NoError(t, err)
		require.Equal(t, n, own)
		both, err := bt.AllocSize(a, q)
		require.NoError(t, err)
		require.GreaterOrEqual(t, both, n+a.NumBytes())
		none, err := bt.AllocSize()
		require.NoError(t, err)
		require.Zero(t, none)
		b.Close()
		require.Zero(t, b.Alignment()+b.MaxSize())
		require.Empty(t, b.Name())
		_, err = b.AllocSize(q)
		require.ErrorIs(t, err, ggml.ErrClosed)
		x.Close()
		_, err = bt.AllocSize(q)
		require.ErrorIs(t, err, ggml.ErrClosed)
	}
}

func TestBackendBuffer(t *testing.T) {
	b, err := cpuBackend(t, 1).NewBuffer(100)
	require.NoError(t, err)
	defer b.Close()
	require.GreaterOrEqual(t, b.Size(), int64(100))
}

// A buffer of the program's memory: tensors in it are that memory.
func TestBufferFromMemory(t *testing.T) {
	memory := make([]byte, 1<<16)
	b, err := ggml.NewBufferFrom(memory)
	require.NoError(t, err)
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
	require.NoError(t, graphAllocator(t).Alloc(g))
	require.NoError(t, cpuBackend(t, 1).Compute(context.Background(), g))
	require.Equal(t, []float32{11, 22, 33, 44}, numbers(t, sum))
	require.NoError(t, ggml.Write(x, []float32{5, 6, 7, 8}))
	require.Equal(t, bytesOf([]float32{5, 6, 7, 8}), memory[64:80])
	_, err = ggml.NewBufferFrom(memory[1:])
	require.ErrorContains(t, err, "begin at a multiple of 32 bytes")
	_, err = ggml.NewBufferFrom(nil)
	require.ErrorContains(t, err, "0 bytes of memory")
}

func TestPlaceAt(t *testing.T) {
	b, err := ggml.CPUBufferType().NewBuffer(1024)
	require.NoError(t, err)
	defer b.Close()
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, 128)
	for offset, want := range map[int64]string{
		-32: "is no multiple of 32", 8: "is no multiple of 32", 544: "512 bytes at offset 544 reach beyond the buffer, which has 1024",
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
	require.NoError(t, x.Fill(1))
	require.Equal(t, bytesOf(numbers(t, x)), bytesOf(numbers(t, whole)[128:]))
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
	buffers, err := ggml.CPUBufferType().Allocate(x, z)
	require.NoError(t, err)
	defer buffers.Close()
	require.True(t, x.Allocated() && z.Allocated())
	require.False(t, y.Allocated())
	_, err = ggml.CPUBufferType().Allocate(x, nil)
	require.ErrorContains(t, err, "the tensor is nil")
}

// Pieces are what copies piece by piece give, written and read, at once and in
// the order of a backend's work.
func TestPieces(t *testing.T) {
	const size = 512
	b := cpuBackend(t, 1)
	x := leaves(t, 1, size/4)[0]
	rapid.Check(t, func(t *rapid.T) {
		p := ggml.Pieces{
			Offset: rapid.Int64Range(-1, size+1).Draw(t, "offset"),
			Size:   rapid.Int64Range(-1, 70).Draw(t, "size"),
			Count:  rapid.Int64Range(-1, 12).Draw(t, "count"),
			Stride: rapid.OneOf(rapid.Int64Range(-1, 100), rapid.Just(int64(1)<<62)).Draw(t, "stride"),
		}
		p.SliceStride = rapid.SampledFrom([]int64{0, p.Size, p.Size + 3, 1 << 62, -1}).Draw(t, "slice stride")
		data := make([]byte, rapid.IntRange(0, 800).Draw(t, "n"))
		random := rand.NewChaCha8([32]byte{byte(len(data))})
		before := make([]byte, size)
		random.Read(data)
		random.Read(before)
		require.NoError(t, x.WriteBytes(before, 0))
		write, read := x.WritePieces, x.ReadPieces
		if rapid.Bool().Draw(t, "async") {
			write = func(data []byte, p ggml.Pieces) error { return b.WritePiecesAsync(x, data, p) }
			read = func(data []byte, p ggml.Pieces) error { return b.ReadPiecesAsync(x, data, p) }
		}
		want, possible := withPieces(before, data, p)
		if !possible {
			require.Error(t, write(data, p))
			require.Error(t, read(data, p))
			return
		}
		require.NoError(t, write(data, p))
		got := make([]byte, size)
		require.NoError(t, x.ReadBytes(got, 0))
		require.Equal(t, want, got)
		back := bytes.Repeat([]byte{0xee}, len(data))
		wantBack, _ := withPieces(back, data, ggml.Pieces{Size: p.Size, Count: p.Count, Stride: p.SliceStride, SliceStride: p.SliceStride})
		if p.SliceStride == 0 {
			wantBack, _ = withPieces(back, data, ggml.Pieces{Size: p.Size, Count: p.Count, Stride: p.Size})
		}
		require.NoError(t, read(back, p))
		require.Equal(t, wantBack, back)
	})
}

// withPieces puts the pieces of data into a copy of before.
func withPieces(before, data []byte, p ggml.Pieces) (after []byte, possible bool) {
	if p.SliceStride == 0 {
		p.SliceStride = p.Size
	}
	after = append([]byte{}, before...)
	if p.Offset < 0 || p.Offset > int64(len(before)) || p.Size < 0 || p.Count < 0 {
		return nil, false
	}
	if p.Size == 0 || p.Count == 0 {
		return after, true
	}
	if p.Count > 1 && (p.Stride < p.Size || p.SliceStride < p.Size || p.Stride > 1<<20 || p.SliceStride > 1<<20) {
		return nil, false
	}
	for i := range p.Count {
		to, from := p.Offset+i*p.Stride, i*p.SliceStride
		if to+p.Size > int64(len(after)) || from+p.Size > int64(len(data)) {
			return nil, false
		}
		copy(after[to:to+p.Size], data[from:])
	}
	return after, true
}
