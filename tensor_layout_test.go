package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// gapless reports whether dimension d has no gap after the dimensions before it.
func gapless(t *ggml.Tensor, d int) bool {
	if d == 0 {
		return t.Stride(0) == t.Type().BlockBytes()
	}
	return t.Dim(d) == 1 || t.Stride(d) == t.Stride(d-1)*t.Dim(d-1)
}

func TestTensorLayout(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(2, 4) // for size 1 ggml accepts any stride
		a := c.NewTensor(ggml.F32, size.Draw(t, "ne0"), size.Draw(t, "ne1"), size.Draw(t, "ne2"), size.Draw(t, "ne3"))
		if rapid.Bool().Draw(t, "view") {
			ne := []int64{a.Dim(0), a.Dim(1), a.Dim(2), a.Dim(3)}
			d := rapid.IntRange(0, 3).Draw(t, "dimension")
			ne[d] -= min(1, ne[d]-2)
			a = c.View(a, ne, []int64{a.Stride(1), a.Stride(2), a.Stride(3)}, 0)
		}
		axes := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "axes")
		b := c.Permute(a, [4]int(axes))
		require.NoError(t, c.Err())

		require.Equal(t, b.Stride(0) > b.Stride(1), b.IsTransposed())
		require.Equal(t, b.Stride(0) > b.Stride(1) || b.Stride(1) > b.Stride(2) || b.Stride(2) > b.Stride(3), b.IsPermuted())
		rows := b.Stride(0) == 4
		require.Equal(t, rows, b.IsContiguousRows())
		require.Equal(t, rows, b.IsContiguousBelow(1))
		require.Equal(t, rows && gapless(b, 1), b.IsContiguousBelow(2))
		require.Equal(t, rows && gapless(b, 1) && gapless(b, 2), b.IsContiguousBelow(3))
		require.Equal(t, rows && gapless(b, 1) && gapless(b, 2) && gapless(b, 3), b.IsContiguousFrom(0))
		require.Equal(t, b.IsContiguous(), b.IsContiguousFrom(0))
		require.Equal(t, rows && gapless(b, 2) && gapless(b, 3), b.IsContiguousFrom(1))
		require.Equal(t, rows && gapless(b, 3), b.IsContiguousFrom(2))
		require.Equal(t, b.NumBytes() == 4*b.NumElements(), b.IsContiguouslyAllocated())
		require.Equal(t, b.Stride(2) == 4 && b.Stride(2) < b.Stride(0) && b.Stride(0) < b.Stride(1), b.IsContiguousChannels())
		require.True(t, ggml.SameShape(b, b))
		require.Equal(t, b.Stride(0) == a.Stride(0) && b.Stride(1) == a.Stride(1) && b.Stride(2) == a.Stride(2) && b.Stride(3) == a.Stride(3), ggml.SameStride(a, b))
		for i := range b.NumElements() {
			at := need.Value(b.Coordinates(i))(t)
			require.Equal(t, i, at[0]+b.Dim(0)*(at[1]+b.Dim(1)*(at[2]+b.Dim(2)*at[3])))
		}
	})
}

func TestTensorShapes(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	scalar, vector, matrix := c.NewTensor(ggml.F32, 1), c.NewTensor(ggml.F32, 4), c.NewTensor(ggml.F32, 4, 3)
	cube, all := c.NewTensor(ggml.F32, 4, 3, 2), c.NewTensor(ggml.F32, 4, 3, 2, 2)
	for i, x := range []*ggml.Tensor{scalar, vector, matrix, cube, all} {
		require.Equal(t, i <= 0, x.IsScalar(), x)
		require.Equal(t, i <= 1, x.IsVector(), x)
		require.Equal(t, i <= 2, x.IsMatrix(), x)
		require.Equal(t, i <= 3, x.Is3D(), x)
		require.False(t, x.IsEmpty())
		require.True(t, x.IsContiguousFrom(2))
		require.False(t, x.IsContiguousFrom(3))
		require.False(t, x.IsContiguousBelow(4))
	}
	require.True(t, ggml.CanRepeat(scalar, all))
	require.True(t, ggml.CanRepeat(vector, matrix))
	require.False(t, ggml.CanRepeat(matrix, vector))
	require.False(t, ggml.SameShape(matrix, cube))
	require.True(t, ggml.SameShape(matrix, c.Dup(matrix)))

	_, err := matrix.Coordinates(12)
	require.ErrorContains(t, err, "Tensor.Coordinates(leaf f32[4, 3]): there is no element 12: there are 12")
	_, err = matrix.Coordinates(-1)
	require.ErrorContains(t, err, "there is no element -1")
	var none *ggml.Tensor
	_, err = none.Coordinates(0)
	require.ErrorContains(t, err, "the tensor is nil")
	failed := ggml.NewContext()
	defer failed.Close()
	poisoned := failed.Add(nil, nil)
	for _, x := range []*ggml.Tensor{none, poisoned} {
		require.False(t, x.IsMatrix() || x.IsScalar() || x.IsContiguousFrom(0) || ggml.SameShape(x, matrix) || ggml.CanRepeat(matrix, x))
	}
}
