package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

func TestTensorsLikeOthers(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.Q8_0, 64, 3)
	b := c.Permute(c.NewTensor(ggml.F32, 4, 3, 2), [4]int{2, 0, 1, 3})
	like := c.NewTensorLike(b)
	require.Equal(t, b.Shape(), like.Shape())
	require.True(t, like.Contiguous())
	require.False(t, like.IsView())
	require.Equal(t, ggml.Q8_0, c.NewTensorLike(a).Type())
	same := c.Alias(b)
	require.True(t, ggml.SameShape(b, same) && ggml.SameStride(b, same))
	require.Equal(t, "none", same.Op())
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	values := normal(2, 24)
	require.NoError(t, ggml.Write(same, values))
	require.Equal(t, values, numbers(t, b))

	require.EqualValues(t, 3*c.NewTensor(ggml.Q8_0, 64).NumBytes(), a.NumBytes())
	require.EqualValues(t, a.NumBytes(), c.MaxTensorBytes())
	require.Zero(t, a.NumBytesPadded()%16)
	require.GreaterOrEqual(t, a.NumBytesPadded(), a.NumBytes())
	require.Less(t, a.NumBytesPadded(), a.NumBytes()+16)
	require.Equal(t, "layer 7 of 8", a.SetNamef("layer %d of %d", 7, 8).Name())

	used := c.MemoryUsed()
	require.Positive(t, used)
	c.NewTensor(ggml.F32, 1000, 1000)
	require.Greater(t, c.MemoryUsed(), used)
	require.Less(t, c.MemoryUsed(), used+1000) // not the data
	c.Close()
	require.Zero(t, c.MemoryUsed())
	require.Zero(t, c.MaxTensorBytes())
}

func TestDupInPlaceAndOwnStrides(t *testing.T) {
	m := machines(t)[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	a, b, row := leaves.NewTensor(ggml.F32, 5, 3), leaves.NewTensor(ggml.F32, 2, 2), leaves.NewTensor(ggml.F32, 4)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}))
	require.NoError(t, ggml.Write(b, []float32{-1, -2, -3, -4}))
	require.NoError(t, ggml.Write(row, []float32{-5, -6, -7, -8}))
	dup := c.DupInPlace(a)
	require.True(t, dup.IsView())
	second, first := c.Set(dup, b, [3]int64{}, 24), c.Set(dup, row, [3]int64{}, 4)
	added := c.Acc(dup, b, [3]int64{}, 4)
	m.compute(t, c.NewGraph(second, first, added))
	require.Equal(t, []float32{0, 1, 2, 3, 4, 5, -1, -2, 8, 9, 10, -3, -4, 13, 14}, numbers(t, second))
	require.Equal(t, []float32{0, -5, -6, -7, -8, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, numbers(t, first))
	require.Equal(t, []float32{0, 0, 0, 3, 4, 5, 3, 3, 8, 9, 10, 11, 12, 13, 14}, numbers(t, added))
	require.Equal(t, float32(6), numbers(t, a)[6])

	c.Set(a, row, [3]int64{}, 48)
	require.ErrorContains(t, c.Err(), "the part ends at byte 64, a has 60")
}

func TestFill(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	a := c.NewTensor(ggml.F32, 3)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	require.NoError(t, ggml.Write(a, []float32{1, 2, 3}))
	require.NoError(t, a.Fill(0))
	require.Equal(t, []float32{0, 0, 0}, numbers(t, a))
	require.NotEmpty(t, ggml.Commit())
}

// An alias of an alias of what a graph computes brings that into the graph, and
// a scheduler finds memory for all.
func TestAliasOfAlias(t *testing.T) {
	s := scheduler(t, cpuBackend(t, 1))
	x := leaves(t, 1, 4)[0]
	c := ggml.NewContext()
	defer c.Close()
	y := c.SqrInPlace(c.Alias(c.Alias(c.Neg(x))))
	g := c.NewGraph(y)
	require.NoError(t, s.Alloc(g))
	require.NoError(t, s.Compute(context.Background(), g))
	got, err := ggml.Read[float32](y)
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1, 4, 9}, got)
}
