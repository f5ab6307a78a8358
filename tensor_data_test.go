package ggml_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// ggml overestimates the bytes of a transposed quantised tensor.
func TestTransposedBlocks(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	q, next := c.NewTensor(ggml.Q8_0, 4096, 32), c.NewTensor(ggml.F32, 4096)
	column := c.NewTensor(ggml.Q8_0, 64, 32)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	ones := bytes.Repeat([]byte{1}, int(next.NumBytes()))
	require.NoError(t, optest.Err(next.WriteAt(ones, 0)))
	for _, transposed := range []*ggml.Tensor{c.Transpose(q), c.Transpose(column), c.Permute(q, [4]int{2, 1, 0, 3})} {
		const want = "the blocks of its type do not lie along its rows"
		require.False(t, transposed.IsContiguous())
		require.ErrorContains(t, transposed.Memset(0), want)
		require.ErrorContains(t, optest.Err(transposed.WriteAt([]byte{1}, 0)), want)
		require.ErrorContains(t, optest.Err(transposed.ReadAt(make([]byte, 1), 0)), want)
		_, err := transposed.Float32s()
		require.ErrorContains(t, err, want)
		require.Error(t, transposed.SetFloat32s(make([]float32, transposed.NumElements())))
		require.ErrorContains(t, ggml.CopyTensor(transposed, transposed), want)
		g := need.Value(ggml.NewGGUF())(t)
		require.ErrorContains(t, g.AddTensor(transposed.SetName("transposed")), "must be contiguous")
		g.Close()
	}
	got := make([]byte, len(ones))
	require.NoError(t, optest.Err(next.ReadAt(got, 0)))
	require.True(t, bytes.Equal(ones, got))
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"the blocks of a's type do not lie along its rows": func(c *ggml.Context) {
			c.View(c.Transpose(c.NewTensor(ggml.Q8_0, 64, 32)), []int64{32}, nil, 0)
		},
		"and the result would have a's shape; use Custom": func(c *ggml.Context) {
			c.MapCustom(func(ggml.Worker, ggml.CustomTensor, ...ggml.CustomTensor) error { return nil }, 1, c.Transpose(c.NewTensor(ggml.Q8_0, 64, 32)))
		},
	})
}

// For an unallocated tensor, the size of the access does not matter.
func TestHugeViewsWithoutMemory(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	transposed := c.Transpose(c.NewTensor(ggml.F32, 1<<20, 1<<20))
	require.ErrorIs(t, transposed.Memset(0), ggml.ErrNotAllocated)
	apart := c.View(c.NewTensor(ggml.F32, 1<<40), []int64{2, 2}, []int64{1 << 41}, 0)
	require.ErrorIs(t, ggml.Write(apart, []float32{1, 2, 3, 4}), ggml.ErrNotAllocated)
	require.ErrorIs(t, ggml.ReadInto(make([]float32, 4), apart), ggml.ErrNotAllocated)
	require.ErrorIs(t, apart.Memset(0), ggml.ErrNotAllocated)
}

// With a large row stride, only the rows are read and written.
func TestWideStrides(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	const distance = 1 << 22 // elements
	all := c.NewTensor(ggml.F32, distance, 5)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, all.Memset(0))
	rows := c.View(all, []int64{3, 2, 2}, []int64{4 * distance, 8 * distance}, 4*5)
	want := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	require.NoError(t, ggml.Write(rows, want))
	got := need.Value(ggml.Read[float32](rows))(t)
	require.Equal(t, want, got)
	for i := range 4 {
		row := need.Value(ggml.Read[float32](c.View(all, []int64{8}, nil, int64(i)*4*distance)))(t)
		require.Equal(t, append([]float32{0, 0, 0, 0, 0}, want[3*i:3*i+3]...), row)
	}
}

// Copying a view does not touch the bytes between its rows.
func TestCopyTensorWithGaps(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 4, 3)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	part := func(x *ggml.Tensor) *ggml.Tensor { return c.View(x, []int64{2, 3}, []int64{16}, 0) }
	require.ErrorContains(t, ggml.CopyTensor(part(a), part(b)), "the copy would include the bytes between the elements of these views")
	require.NoError(t, ggml.Write(b, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}))
	require.NoError(t, ggml.CopyTensor(c.Transpose(a), c.Transpose(b)))
	got := need.Value(ggml.Read[float32](a))(t)
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got)
}

func TestMemset(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.F32, 3)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, []float32{1, 2, 3}))
	require.NoError(t, a.Memset(0))
	require.Equal(t, []float32{0, 0, 0}, optest.Values(t, a))
	require.NotEmpty(t, ggml.Commit())
}

// Regions equal copies row by row, written and read, synchronously and in the order of a backend's
// work.
func TestRegions(t *testing.T) {
	const size = 512
	b := optest.NewCPUBackend(t, 1)
	x := optest.Leaves(t, 1, size/4)[0]
	rapid.Check(t, func(t *rapid.T) {
		p := ggml.Region2D{
			Offset: rapid.Int64Range(-1, size+1).Draw(t, "offset"),
			Width:  rapid.Int64Range(-1, 70).Draw(t, "width"),
			Rows:   rapid.Int64Range(-1, 12).Draw(t, "rows"),
			Stride: rapid.OneOf(rapid.Int64Range(-1, 100), rapid.Just(int64(1)<<62)).Draw(t, "stride"),
		}
		p.SliceStride = rapid.SampledFrom([]int64{0, p.Width, p.Width + 3, 1 << 62, -1}).Draw(t, "slice stride")
		data := make([]byte, rapid.IntRange(0, 800).Draw(t, "n"))
		random := rand.NewChaCha8([32]byte{byte(len(data))})
		before := make([]byte, size)
		random.Read(data)
		random.Read(before)
		require.NoError(t, optest.Err(x.WriteAt(before, 0)))
		write, read := x.WriteRegion, x.ReadRegion
		if rapid.Bool().Draw(t, "async") {
			write = func(data []byte, p ggml.Region2D) error { return b.WriteRegionAsync(x, data, p) }
			read = func(data []byte, p ggml.Region2D) error { return b.ReadRegionAsync(x, data, p) }
		}
		want, possible := withRegion(before, data, p)
		if !possible {
			require.Error(t, write(data, p))
			require.Error(t, read(data, p))
			return
		}
		require.NoError(t, write(data, p))
		got := make([]byte, size)
		require.NoError(t, optest.Err(x.ReadAt(got, 0)))
		require.Equal(t, want, got)
		back := bytes.Repeat([]byte{0xee}, len(data))
		wantBack, _ := withRegion(back, data, ggml.Region2D{Width: p.Width, Rows: p.Rows, Stride: p.SliceStride, SliceStride: p.SliceStride})
		if p.SliceStride == 0 {
			wantBack, _ = withRegion(back, data, ggml.Region2D{Width: p.Width, Rows: p.Rows, Stride: p.Width})
		}
		require.NoError(t, read(back, p))
		require.Equal(t, wantBack, back)
	})
}

// A tensor is an io.ReaderAt and an io.WriterAt; access beyond its end is an error.
func TestTensorAsFile(t *testing.T) {
	x := optest.Leaves(t, 2, 40)
	want := make([]byte, x[0].NumBytes())
	n := need.Value(x[0].ReadAt(want, 0))(t)
	require.Equal(t, 160, n)
	require.NoError(t, iotest.TestReader(io.NewSectionReader(x[0], 0, x[0].NumBytes()), want))

	_, err := io.Copy(io.NewOffsetWriter(x[1], 0), bytes.NewReader(want))
	require.NoError(t, err)
	got := need.Value(ggml.Read[float32](x[1]))(t)
	require.Equal(t, optest.Values(t, x[0]), got)
	n, err = io.NewOffsetWriter(x[1], 150).Write(make([]byte, 11))
	require.Zero(t, n)
	require.ErrorContains(t, err, "11 bytes at offset 150 reach beyond the tensor, which has 160")
	n, err = x[1].ReadAt(make([]byte, 11), 150)
	require.Zero(t, n)
	require.ErrorContains(t, err, "11 bytes at offset 150 reach beyond the tensor, which has 160")
}

// A view of an allocated tensor can be written and read on every device; some find its data by the
// buffer.
func TestDataOfLaterViews(t *testing.T) {
	r := newRig(t)
	for i, d := range r.devices {
		if d.Type() == ggml.Accelerator {
			continue
		}
		t.Run(d.Name(), func(t *testing.T) {
			c := ggml.NewContext()
			defer c.Close()
			x := c.NewTensor(ggml.F32, 4, 3)
			buffers := need.Value(d.BufferType().Allocate(x))(t)
			defer buffers.Close()
			require.NoError(t, buffers.Clear(0))
			rows := c.View(x, []int64{4, 2}, nil, 16)
			require.NoError(t, ggml.Write(rows, []float32{1, 2, 3, 4, 5, 6, 7, 8}))
			got := need.Value(ggml.Read[float32](c.View(x, []int64{2}, nil, 24)))(t)
			require.Equal(t, []float32{3, 4}, got)
			require.NoError(t, c.View(x, []int64{2}, nil, 40).Memset(0))
			b := r.backends[i]
			p := make([]byte, 4)
			require.NoError(t, b.ReadAsync(c.View(x, []int64{4}, nil, 16), p, 12))
			require.NoError(t, b.Synchronize())
			require.NoError(t, b.WriteAsync(c.View(x, []int64{4}, nil, 0), p, 4))
			require.NoError(t, b.Synchronize())
			all := need.Value(ggml.Read[float32](x))(t)
			require.Equal(t, []float32{0, 4, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0}, all)
		})
	}
}
