package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// A tensor with the layout of another, bound to the same memory, has the same elements.
func TestTensorOfLayout(t *testing.T) {
	for _, d := range optest.Devices(t) {
		t.Run(d.Name, func(t *testing.T) {
			b := need.Value(d.BufferType().NewBuffer(4096))(t)
			defer b.Close()
			c, again := ggml.NewContext(), ggml.NewContext()
			defer c.Close()
			defer again.Close()
			x := c.NewTensor(ggml.F32, 3, 2)
			require.NoError(t, b.PlaceAt(x, 0))
			require.NoError(t, ggml.Write(x, []float32{1, 2, 3, 4, 5, 6}))
			turned := c.Transpose(x)

			whole := again.NewTensorOf(x.Layout())
			require.NoError(t, b.BindAt(whole, 0))
			require.Equal(t, []float32{1, 2, 3, 4, 5, 6}, optest.Values(t, whole))
			strided := again.NewTensorOf(turned.Layout())
			require.Equal(t, turned.Layout(), strided.Layout())
			require.NoError(t, b.BindAt(strided, 0))
			require.Equal(t, []float32{1, 4, 2, 5, 3, 6}, optest.Values(t, strided))

			column := turned.Layout()
			column.Shape = [ggml.MaxDims]int64{2, 1, 1, 1}
			part := again.AliasOf(whole, column, 4)
			require.EqualValues(t, 4, part.ViewOffset())
			require.NoError(t, b.BindAt(part, 4))
			require.Equal(t, []float32{2, 5}, optest.Values(t, part))
		})
	}
}

func TestLayoutMisuse(t *testing.T) {
	l := ggml.Layout{Type: ggml.F32, Shape: [4]int64{4, 2, 1, 1}, Stride: [4]int64{4, 16, 32, 32}}
	n := need.Value(l.NumBytes())(t)
	require.EqualValues(t, 32, n)
	quantized := ggml.Layout{Type: ggml.Q8_0, Shape: [4]int64{64, 2, 1, 1}, Stride: [4]int64{34, 68, 136, 136}}
	n = need.Value(quantized.NumBytes())(t)
	require.EqualValues(t, 136, n)
	for says, change := range map[string]func(l *ggml.Layout){
		"there is no type -1":                           func(l *ggml.Layout) { l.Type = -1 },
		"ne1 is 0; it must be at least 1":               func(l *ggml.Layout) { l.Shape[1] = 0 },
		"stride 1 is 6, not a multiple of the 4 bytes":  func(l *ggml.Layout) { l.Stride[1] = 6 },
		"stride 0 is -4, not a multiple of the 4 bytes": func(l *ggml.Layout) { l.Stride[0] = -4 },
		"it is too large":                               func(l *ggml.Layout) { l.Shape[3] = math.MaxInt64 },
		"its elements share memory":                     func(l *ggml.Layout) { l.Stride[1] = 0 },
		"ne0 is 33; a row of q8_0 is a multiple of 32":  func(l *ggml.Layout) { *l = quantized; l.Shape[0] = 33 },
	} {
		c := ggml.NewContext()
		bad := l
		change(&bad)
		c.NewTensorOf(bad)
		require.ErrorContains(t, c.Err(), says)
		c.Close()
	}
	for says, f := range map[string]func(c *ggml.Context, x *ggml.Tensor){
		"the type is f32, not i32":                     func(c *ggml.Context, x *ggml.Tensor) { l := l; l.Type = ggml.I32; c.AliasOf(x, l, 0) },
		"the offset is 2; it must be a multiple of":    func(c *ggml.Context, x *ggml.Tensor) { c.AliasOf(x, l, 2) },
		"the offset is -4; it must be":                 func(c *ggml.Context, x *ggml.Tensor) { c.AliasOf(x, l, -4) },
		"32 bytes at offset 4 reach beyond the tensor": func(c *ggml.Context, x *ggml.Tensor) { c.AliasOf(x, l, 4) },
		"reach beyond the tensor, which has 32":        func(c *ggml.Context, x *ggml.Tensor) { c.AliasOf(x, l, math.MaxInt64-3) },
	} {
		c := ggml.NewContext()
		f(c, c.NewTensor(ggml.F32, 4, 2))
		require.ErrorContains(t, c.Err(), says)
		c.Close()
	}
}

func TestBindMisuse(t *testing.T) {
	b := need.Value(ggml.CPUBufferType().NewBuffer(4096))(t)
	defer b.Close()
	other := need.Value(ggml.CPUBufferType().NewBuffer(4096))(t)
	defer other.Close()
	c := ggml.NewContext()
	defer c.Close()
	x, y := c.NewTensor(ggml.F32, 8), c.NewTensor(ggml.F32, 8)
	view := c.View(x, []int64{4}, nil, 16)
	require.ErrorContains(t, b.BindAt(view, 16), "a view must lie at its place in its source")
	require.ErrorContains(t, b.BindAt(x, 4), "the offset 4 is not a multiple of")
	require.ErrorContains(t, b.BindAt(x, 4096), "reach beyond the buffer, which has 4096")
	require.NoError(t, b.BindAt(x, 64))
	require.ErrorContains(t, b.BindAt(x, 64), "the tensor has memory already")
	require.ErrorContains(t, b.BindAt(view, 64), "a view must lie at its place in its source")
	require.ErrorContains(t, other.BindAt(view, 80), "a view must lie at its place in its source")
	require.NoError(t, b.BindAt(view, 80))
	require.NoError(t, b.BindAt(y, 64), "two tensors may have one place")
	require.NoError(t, ggml.Write(y, []float32{0, 1, 2, 3, 4, 5, 6, 7}))
	require.Equal(t, []float32{4, 5, 6, 7}, optest.Values(t, view))
}
