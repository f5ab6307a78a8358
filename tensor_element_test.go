package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

func TestElements(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	types := []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.F64, ggml.I8, ggml.I16, ggml.I32, ggml.I64}
	var all, permuted []*ggml.Tensor
	for _, typ := range types {
		all = append(all, c.NewTensor(typ, 3, 2, 4))
		permuted = append(permuted, c.Permute(all[len(all)-1], [4]int{2, 0, 1, 3}))
	}
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	for k, x := range all {
		y := permuted[k] // [2, 4, 3]
		require.NoError(t, x.FillInt32(0))
		for i := range x.NumElements() {
			require.NoError(t, x.SetInt32At(int32(i)-3, i))
		}
		for i2 := range int64(4) {
			for i1 := range int64(2) {
				for i0 := range int64(3) {
					want := i0 + 3*i1 + 6*i2
					for _, at := range [][]int64{{want}, {i0, i1, i2}, {i0, i1, i2, 0}} {
						n := need.Value(x.Int32At(at...))(t)
						require.EqualValues(t, want-3, n, types[k])
						f := need.Value(x.Float32At(at...))(t)
						require.EqualValues(t, want-3, f)
					}
					// The same element of the permuted view, by both kinds of index.
					for _, at := range [][]int64{{i1, i2, i0}, {i1 + 2*i2 + 8*i0}} {
						n := need.Value(y.Int32At(at...))(t)
						require.EqualValues(t, want-3, n)
					}
				}
			}
		}
		require.NoError(t, y.Fill(2.5))
		want := float32(2.5)
		if k > 3 {
			want = 2
		}
		require.NoError(t, y.SetFloat32At(-7.75, 1, 3, 2)) // also the last element of x
		for i := range x.NumElements() - 1 {
			f := need.Value(x.Float32At(i))(t)
			require.Equal(t, want, f)
		}
		last := need.Value(x.Int32At(2, 1, 3))(t)
		require.EqualValues(t, -7, last)
	}
	big := all[7]
	require.NoError(t, big.SetFloat32At(float32(math.MinInt64), 0))
	_, err := big.Int32At(0)
	require.ErrorContains(t, err, "which an int32 cannot hold")
}

func TestElementErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x, q, small := c.NewTensor(ggml.F32, 3, 2).SetName("x"), c.NewTensor(ggml.Q8_0, 32).SetName("q"), c.NewTensor(ggml.I8, 2).SetName("small")
	_, err := x.Float32At(0)
	require.ErrorIs(t, err, ggml.ErrNotAllocated)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	get := func(x *ggml.Tensor, i ...int64) error {
		_, err := x.Float32At(i...)
		return err
	}
	for want, err := range map[string]error{
		"Tensor.Float32At(x f32[3, 2]): there is no element 6: there are 6":                    get(x, 6),
		"Tensor.Float32At(x f32[3, 2]): there is no element -1":                                get(x, -1),
		"Tensor.Float32At(x f32[3, 2]): index 3 of dimension 0 is out of range: its size is 3": get(x, 3, 0),
		"Tensor.Float32At(x f32[3, 2]): index -1 of dimension 1":                               get(x, 0, -1),
		"Tensor.Float32At(x f32[3, 2]): index 1 of dimension 2":                                get(x, 0, 0, 1),
		"Tensor.Float32At(x f32[3, 2]): there are 0 indices":                                   get(x),
		"Tensor.Float32At(x f32[3, 2]): there are 5 indices":                                   get(x, 0, 0, 0, 0, 0),
		"Tensor.Float32At(q q8_0[32]): the elements of q8_0 cannot be used one by one":         get(q, 0),
		"Tensor.Fill(q q8_0[32]): the elements of q8_0":                                        q.Fill(0),
		"Tensor.SetInt32At(small i8[2]): 128 does not fit into i8":                             small.SetInt32At(128, 0),
		"Tensor.Fill(small i8[2]): -129 does not fit into i8":                                  small.Fill(-129.5),
		"Tensor.SetFloat32At(small i8[2]): NaN does not fit into i8":                           small.SetFloat32At(float32(math.NaN()), 0),
		"Tensor.Float32At(nil): the tensor is nil":                                             get(nil, 0),
		"Tensor.SetInt32At(x f32[3, 2]): there is no element 6: there are 6":                   x.SetInt32At(1, 6),
	} {
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, small.Fill(-128.5))
}
