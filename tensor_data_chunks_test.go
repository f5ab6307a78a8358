package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Chunks of tensors on all devices at once, views and tensors of system memory among them.
func TestChunks(t *testing.T) {
	var tensors []*ggml.Tensor
	for _, d := range append(allDevices(t), nil) {
		c := ggml.NewContext()
		defer c.Close()
		x := c.NewTensor(ggml.F32, 4, 2)
		view := c.View(x, []int64{2}, nil, 20) // made before x has memory
		memory := ggml.CPUBufferType()
		if d != nil {
			memory = d.BufferType()
		}
		buffers := need.Value(c.Allocate(memory))(t)
		defer buffers.Close()
		require.NoError(t, x.Memset(0))
		tensors = append(tensors, x, view)
	}
	data := optest.Normal(1, 2*len(tensors))
	var chunks []ggml.Chunk
	for i, x := range tensors {
		chunks = append(chunks, ggml.Chunk{Tensor: x, Offset: 4 * int64((i+1)%2), Size: 4, At: 8 * int64(i)}, ggml.Chunk{Tensor: x, At: 1})
	}
	require.NoError(t, ggml.WriteChunks(bytesOf(data), chunks...))
	got := make([]float32, len(data))
	require.NoError(t, ggml.ReadChunks(bytesOf(got), chunks...))
	for i, x := range tensors {
		require.Equal(t, []float32{data[2*i], 0}, got[2*i:2*i+2])
		if i%2 == 0 {
			require.Equal(t, []float32{0, data[2*i], 0, 0, 0, data[2*i+2], 0, 0}, need.Value(ggml.Read[float32](x))(t))
		}
	}
	require.NoError(t, ggml.WriteChunks(nil))

	copies := ggml.NewContext()
	defer copies.Close()
	var srcs, dsts []*ggml.Tensor
	for i := 0; i < len(tensors); i += 2 {
		srcs, dsts = append(srcs, tensors[i]), append(dsts, copies.NewTensor(ggml.F32, 4, 2))
	}
	buffers := need.Value(copies.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	require.NoError(t, ggml.CopyTensors(dsts, srcs))
	for i, dst := range dsts {
		require.Equal(t, need.Value(ggml.Read[float32](srcs[i]))(t), need.Value(ggml.Read[float32](dst))(t))
	}
	require.NoError(t, ggml.CopyTensors(nil, nil))
}

func TestChunksMisuse(t *testing.T) {
	x := optest.Leaves(t, 2, 4)
	p := make([]byte, 16)
	closed := ggml.NewContext()
	gone := closed.NewTensor(ggml.F32, 4)
	closed.Close()
	for want, chunk := range map[string]ggml.Chunk{
		"use of nil": {Size: 4},
		"12 bytes at offset 8 reach beyond the tensor, which has 16": {Tensor: x[0], Offset: 8, Size: 12},
		"4 bytes at offset -1 reach":                                 {Tensor: x[0], Offset: -1, Size: 4},
		"8 bytes at 12 reach beyond the slice, which has 16":         {Tensor: x[0], Size: 8, At: 12},
		"8 bytes at -4 reach beyond the slice":                       {Tensor: x[0], Size: 8, At: -4},
		"-4 bytes at 0 reach":                                        {Tensor: x[0], Size: -4},
		"4 bytes at 17 reach":                                        {Tensor: x[0], Size: 4, At: 17},
		"closed":                                                     {Tensor: gone, Size: 4},
	} {
		good := ggml.Chunk{Tensor: x[1], Size: 4}
		require.ErrorContains(t, ggml.WriteChunks(p, good, chunk), want)
		require.ErrorContains(t, ggml.ReadChunks(p, good, chunk), want)
	}
	require.ErrorContains(t, ggml.CopyTensors(x[:1], x), "a destination for each source")
	require.ErrorContains(t, ggml.CopyTensors([]*ggml.Tensor{nil}, x[:1]), "a tensor is nil")
	require.ErrorContains(t, ggml.CopyTensors([]*ggml.Tensor{gone}, x[:1]), "closed")
	c := ggml.NewContext()
	defer c.Close()
	require.ErrorContains(t, ggml.CopyTensors([]*ggml.Tensor{c.NewTensor(ggml.F32, 5)}, x[:1]), "type, shape and layout must be equal")
}
