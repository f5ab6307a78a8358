package kernels_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// repacked runs a test with weights in each of the CPU's repacking layouts that supports them.
func repacked(t *testing.T, typ ggml.Type, f func(t *testing.T, w *ggml.Tensor)) {
	for _, bt := range optest.CPU(t).ExtraBufferTypes() {
		t.Run(bt.Name(), func(t *testing.T) {
			c := ggml.NewContext()
			defer c.Close()
			w := c.NewTensor(typ, 256, 64)
			if bt.IsHost() || !bt.SupportsMulMat(w) {
				t.Skip("it takes no such weights")
			}
			buffers := need.Value(c.Allocate(bt))(t)
			defer buffers.Close()
			require.NoError(t, w.SetFloat32s(refmath.Normal(optest.RNG(1), 1, 256, 64).Float32()))
			f(t, w)
		})
	}
}

// ggml's products of repacked weights and GEMM can alternate in a thread: with AMX, both configure
// its tiles.
func TestGEMMBesideRepacked(t *testing.T) {
	if !kernels.HasBF16() {
		t.Skip("there is no GEMM in BF16")
	}
	repacked(t, ggml.Q8_0, func(t *testing.T, w *ggml.Tensor) {
		g := ggml.NewContext()
		defer g.Close()
		x, other := g.NewTensor(ggml.F32, 256, 40).SetInput(), g.NewTensor(ggml.F32, 256, 30).SetInput()
		before := g.MulMat(w, x).SetOutput()
		gemm := kernels.GEMM(g, exact, pair(other, kernels.CastBF16(g, x))).SetOutput()
		after := g.MulMat(w, x).SetOutput()
		graph := g.NewGraph(before, gemm, after)
		require.NoError(t, optest.NewGraphAllocator(t).Allocate(graph))
		for i, leaf := range []*ggml.Tensor{x, other} {
			require.NoError(t, leaf.SetFloat32s(refmath.Normal(optest.RNG(uint64(i)), 1, leaf.Shape()...).Float32()))
		}
		require.NoError(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), graph))
		require.Equal(t, optest.Values(t, before), optest.Values(t, after))
	})
}

// Repacked weights are refused.
func TestRepackedRefused(t *testing.T) {
	repacked(t, ggml.Q4_0, func(t *testing.T, w *ggml.Tensor) {
		for name, op := range map[string]func(c *ctx, x *ggml.Tensor) *ggml.Tensor{
			"gemm": func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return kernels.GEMM(c, exact, pair(w, x)) },
			"gemv": func(c *ctx, x *ggml.Tensor) *ggml.Tensor { return kernels.GEMV(c, x, w) },
		} {
			g := ggml.NewContext()
			graph := g.NewGraph(op(g, g.NewTensor(ggml.F32, 256, 1).SetInput()))
			err := optest.NewGraphAllocator(t).Allocate(graph)
			if err == nil {
				err = optest.NewCPUBackend(t, 2).Compute(context.Background(), graph)
			}
			require.Error(t, err, name)
			g.Close()
		}
	})
}
