package ggml_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// The library counts more bytes of a quantised tensor that is turned than there are.
func TestTurnedBlocks(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	q, next := c.NewTensor(ggml.Q8_0, 4096, 32), c.NewTensor(ggml.F32, 4096)
	column := c.NewTensor(ggml.Q8_0, 64, 32)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	ones := bytes.Repeat([]byte{1}, int(next.NumBytes()))
	require.NoError(t, next.WriteBytes(ones, 0))
	for _, turned := range []*ggml.Tensor{c.Transpose(q), c.Transpose(column), c.Permute(q, [4]int{2, 1, 0, 3})} {
		const want = "the blocks of its type do not lie along its rows"
		require.False(t, turned.Contiguous())
		require.ErrorContains(t, turned.Fill(0), want)
		require.ErrorContains(t, turned.WriteBytes([]byte{1}, 0), want)
		require.ErrorContains(t, turned.ReadBytes(make([]byte, 1), 0), want)
		_, err := turned.Float32s()
		require.ErrorContains(t, err, want)
		require.Error(t, turned.SetFloat32s(make([]float32, turned.NumElements())))
		require.ErrorContains(t, ggml.CopyTensor(turned, turned), want)
		g := ggml.NewGGUF()
		require.ErrorContains(t, g.AddTensor(turned.SetName("turned")), "must be contiguous")
		g.Close()
	}
	got := make([]byte, len(ones))
	require.NoError(t, next.ReadBytes(got, 0))
	require.True(t, bytes.Equal(ones, got))
	refused(t, map[string]func(c *ggml.Context){
		"the blocks of a's type do not lie along its rows": func(c *ggml.Context) {
			c.View(c.Transpose(c.NewTensor(ggml.Q8_0, 64, 32)), []int64{32}, nil, 0)
		},
	})
}

// Without memory, the size of what would be read or written does not matter.
func TestHugeViewsWithoutMemory(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	turned := c.Transpose(c.NewTensor(ggml.F32, 1<<20, 1<<20))
	require.ErrorIs(t, turned.Fill(0), ggml.ErrNotAllocated)
	apart := c.View(c.NewTensor(ggml.F32, 1<<40), []int64{2, 2}, []int64{1 << 41}, 0)
	require.ErrorIs(t, ggml.Write(apart, []float32{1, 2, 3, 4}), ggml.ErrNotAllocated)
	require.ErrorIs(t, ggml.ReadInto(make([]float32, 4), apart), ggml.ErrNotAllocated)
	require.ErrorIs(t, apart.Fill(0), ggml.ErrNotAllocated)
}

// Of rows that lie far apart only these are read and written.
func TestRowsFarApart(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	const distance = 1 << 22 // elements
	all := c.NewTensor(ggml.F32, distance, 5)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.NoError(t, all.Fill(0))
	rows := c.View(all, []int64{3, 2, 2}, []int64{4 * distance, 8 * distance}, 4*5)
	want := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	require.NoError(t, ggml.Write(rows, want))
	got, err := ggml.Read[float32](rows)
	require.NoError(t, err)
	require.Equal(t, want, got)
	for i := range 4 {
		row, err := ggml.Read[float32](c.View(all, []int64{8}, nil, int64(i)*4*distance))
		require.NoError(t, err)
		require.Equal(t, append([]float32{0, 0, 0, 0, 0}, want[3*i:3*i+3]...), row)
	}
}

// A copy of a view leaves alone what lies between its rows.
func TestCopyTensorWithGaps(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a, b := c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 4, 3)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	part := func(x *ggml.Tensor) *ggml.Tensor { return c.View(x, []int64{2, 3}, []int64{16}, 0) }
	require.ErrorContains(t, ggml.CopyTensor(part(a), part(b)), "what lies between the elements of these views would be copied too")
	require.NoError(t, ggml.Write(b, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}))
	require.NoError(t, ggml.CopyTensor(c.Transpose(a), c.Transpose(b)))
	got, err := ggml.Read[float32](a)
	require.NoError(t, err)
	require.Equal(t, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, got)
}
