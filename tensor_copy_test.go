package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

// Asynchronously written data is available to the next computation, in the tensor's own memory and
// in a graph's.
func TestAsync(t *testing.T) {
	for _, d := range allDevices(t) {
		t.Run(d.Name(), func(t *testing.T) {
			b := need.Value(d.NewBackend())(t)
			defer b.Close()
			leavesContext, c := ggml.NewContext(), ggml.NewContext()
			defer leavesContext.Close()
			defer c.Close()
			own, other := leavesContext.NewTensor(ggml.F32, 4), leavesContext.NewTensor(ggml.F32, 4)
			buffers := need.Value(leavesContext.Allocate(d.BufferType()))(t)
			defer buffers.Close()
			input := c.NewTensor(ggml.F32, 4).SetInput()
			y := c.Add(own, c.Add(other, input))
			g := c.NewGraph(y)
			a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
			defer a.Close()
			require.NoError(t, a.Allocate(g))
			computing := b
			if !d.SupportsOp(y) { // BLAS, whose memory is the host's
				computing = optest.NewCPUBackend(t, 1)
			}
			for k := float32(0); k < 3; k++ {
				require.NoError(t, b.WriteAsync(own, bytesOf([]float32{k, 2, 3, 4}), 0))
				require.NoError(t, b.WriteAsync(own, bytesOf([]float32{9}), 4))
				require.NoError(t, ggml.CopyTensorAsync(b, b, other, own))
				require.NoError(t, b.WriteAsync(input, bytesOf([]float32{1, 1, 1, 1}), 0))
				require.NoError(t, b.Synchronize())
				require.NoError(t, computing.Compute(context.Background(), g))
				got := make([]float32, 4)
				require.NoError(t, b.ReadAsync(y, bytesOf(got), 0))
				require.NoError(t, b.Synchronize())
				require.Equal(t, []float32{2*k + 1, 19, 7, 9}, got)
			}
			require.NoError(t, b.WriteAsync(own, bytesOf([]float32{5, 6, 7, 8}), 0))
			b.Close() // without Synchronize
			got := need.Value(ggml.Read[float32](own))(t)
			require.Equal(t, []float32{5, 6, 7, 8}, got)
		})
	}
}

func TestAsyncMisuse(t *testing.T) {
	x := optest.Leaves(t, 2, 4)
	b := optest.NewCPUBackend(t, 1)
	p := make([]byte, 16)
	c := ggml.NewContext()
	defer c.Close()
	bare, wide := c.NewTensor(ggml.F32, 4), optest.Leaves(t, 1, 5)[0]
	require.ErrorIs(t, b.WriteAsync(bare, p, 0), ggml.ErrNotAllocated)
	require.ErrorIs(t, b.ReadAsync(bare, p, 0), ggml.ErrNotAllocated)
	require.ErrorContains(t, b.WriteAsync(nil, p, 0), "the tensor is nil")
	require.ErrorContains(t, b.ReadAsync(x[0], p, 4), "16 bytes at offset 4 reach beyond the tensor, which has 16")
	require.ErrorContains(t, b.WriteAsync(x[0], p, -1), "reach beyond the tensor")
	require.NoError(t, b.WriteAsync(x[0], nil, 0))
	require.ErrorContains(t, (*ggml.Backend)(nil).WriteAsync(x[0], p, 0), "the backend is nil")
	require.ErrorContains(t, ggml.CopyTensorAsync(b, b, wide, x[0]), "type, shape and layout must be equal")
	require.ErrorIs(t, ggml.CopyTensorAsync(b, b, bare, x[0]), ggml.ErrNotAllocated)
	require.ErrorContains(t, ggml.CopyTensorAsync(b, nil, x[0], x[1]), "a backend or a tensor is nil")
	require.ErrorContains(t, ggml.CopyTensorAsync(b, b, nil, x[1]), "a backend or a tensor is nil")
	b.Close()
	require.ErrorIs(t, b.WriteAsync(x[0], p, 0), ggml.ErrClosed)
	require.ErrorIs(t, ggml.CopyTensorAsync(b, b, x[0], x[1]), ggml.ErrClosed)
	d := ggml.NewContext()
	gone := d.NewTensor(ggml.F32, 4)
	d.Close()
	require.ErrorIs(t, optest.NewCPUBackend(t, 1).ReadAsync(gone, p, 0), ggml.ErrClosed)
}
