package ggml_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// packedMemory calls f for each kind of packed memory of the processor that
// takes matrices of a type.
func packedMemory(t *testing.T, typ ggml.Type, f func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor)) {
	cpu, err := ggml.DeviceByType(ggml.CPU)
	require.NoError(t, err)
	for _, bt := range cpu.ExtraBufferTypes() {
		c := ggml.NewContext()
		w := c.NewTensor(typ, 256, 64).SetName("w")
		if !bt.IsHost() && bt.Multiplies(w) {
			t.Run(fmt.Sprintf("%s %v", bt.Name(), typ), func(t *testing.T) { f(t, bt, c, w) })
		}
		c.Close()
	}
}

// Products with a packed matrix are those with a plain one.
func TestPackedMulMat(t *testing.T) {
	backend := cpuBackend(t, 2)
	for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K, ggml.Q6_K, ggml.IQ4NL} {
		packedMemory(t, typ, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, packed *ggml.Tensor) {
			rng := rand.New(rand.NewPCG(1, 1))
			values := make([]float32, packed.NumElements())
			for i := range values {
				values[i] = float32(rng.NormFloat64())
			}
			plainContext := ggml.NewContext()
			defer plainContext.Close()
			plain := plainContext.NewTensor(typ, packed.Shape()...)
			for _, x := range []struct {
				c  *ggml.Context
				w  *ggml.Tensor
				bt *ggml.BufferType
			}{{c, packed, bt}, {plainContext, plain, ggml.CPUBufferType()}} {
				buffers, err := x.c.Allocate(x.bt)
				require.NoError(t, err)
				defer buffers.Close()
				require.NoError(t, x.w.SetFloat32s(values))
			}
			for _, n := range []int64{1, 3, 40} {
				g := ggml.NewContext()
				defer g.Close()
				x := g.NewTensor(ggml.F32, 256, n).SetInput()
				got, want := g.MulMat(packed, x), g.MulMat(plain, x)
				graph := g.NewGraph(got, want)
				require.NoError(t, graphAllocator(t).Alloc(graph))
				require.NoError(t, ggml.Write(x, values[:256*n]))
				require.NoError(t, backend.Compute(context.Background(), graph))
				a, err := ggml.Read[float32](got)
				require.NoError(t, err)
				b, err := ggml.Read[float32](want)
				require.NoError(t, err)
				require.Less(t, refmath.NMSE(a, b), 1e-3)
			}
		})
	}
}

// Packed and tiled products can follow each other in a thread: with AMX, the
// libraries behind them share the configuration of its tiles.
func TestPackedBesideTiled(t *testing.T) {
	if !ggml.TiledBF16() {
		t.Skip("there are no tiled products in BF16")
	}
	backend := cpuBackend(t, 2)
	packedMemory(t, ggml.Q8_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, packed *ggml.Tensor) {
		buffers, err := c.Allocate(bt)
		require.NoError(t, err)
		defer buffers.Close()
		values := make([]float32, packed.NumElements())
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range values {
			values[i] = float32(rng.NormFloat64())
		}
		require.NoError(t, packed.SetFloat32s(values))

		g := ggml.NewContext()
		defer g.Close()
		x := g.NewTensor(ggml.F32, 256, 40).SetInput()
		w := g.NewTensor(ggml.F32, 256, 30).SetInput()
		before := g.MulMat(packed, x).SetOutput()
		tiled := g.TiledMulMat(w, g.RoundBF16(x)).SetOutput()
		after := g.MulMat(packed, x).SetOutput()
		graph := g.NewGraph(before, tiled, after)
		require.NoError(t, graphAllocator(t).Alloc(graph))
		require.NoError(t, ggml.Write(x, values[:256*40]))
		require.NoError(t, ggml.Write(w, values[:256*30]))
		require.NoError(t, backend.Compute(context.Background(), graph))
		want, err := ggml.Read[float32](before)
		require.NoError(t, err)
		got, err := ggml.Read[float32](after)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// A packed matrix does nothing else, and says so.
func TestPackedMisuse(t *testing.T) {
	packedMemory(t, ggml.Q4_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor) {
		half := c.View(w, []int64{256, 32}, nil, 0)
		buffers, err := c.Allocate(bt)
		require.NoError(t, err)
		defer buffers.Close()
		data := make([]byte, w.NumBytes())

		const cannot = "the tensor is packed to be multiplied with, and can only be written as a whole"
		require.NoError(t, w.WriteBytes(data, 0))
		require.ErrorContains(t, w.WriteBytes(data[:18], 0), "the tensor is packed to be multiplied with; write all of its 9216 bytes at once")
		require.ErrorContains(t, w.WriteBytes(data[18:], 18), "at once")
		require.ErrorContains(t, half.WriteBytes(data[:half.NumBytes()], 0), "at once")
		require.ErrorContains(t, w.ReadBytes(data, 0), cannot)
		require.ErrorContains(t, w.Fill(0), cannot)
		_, err = w.Float32s()
		require.ErrorContains(t, err, cannot)
		require.ErrorContains(t, w.WritePieces(data, ggml.Pieces{Size: 9216, Count: 1, Stride: 9216}), cannot)
		require.ErrorContains(t, cpuBackend(t, 2).WriteAsync(w, data, 0), cannot)

		other := ggml.NewContext()
		defer other.Close()
		plain := other.NewTensor(ggml.Q4_0, 256, 64)
		memory, err := other.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		defer memory.Close()
		require.ErrorContains(t, ggml.CopyTensor(plain, w), "cannot be copied")
		require.ErrorContains(t, ggml.CopyTensor(w, plain), "cannot be copied")

		_, err = ggml.NewGraphAllocator(bt)
		require.ErrorContains(t, err, "no results")
		for name, op := range map[string]func(g *ggml.Context, x, ids *ggml.Tensor) *ggml.Tensor{
			"a view":           func(g *ggml.Context, x, _ *ggml.Tensor) *ggml.Tensor { return g.MulMat(half, x) },
			"the rows":         func(g *ggml.Context, _, ids *ggml.Tensor) *ggml.Tensor { return g.GetRows(w, ids) },
			"tiles":            func(g *ggml.Context, x, _ *ggml.Tensor) *ggml.Tensor { return g.TiledMulMat(w, x) },
			"a stream":         func(g *ggml.Context, x, _ *ggml.Tensor) *ggml.Tensor { return g.StreamMulMat(w, x) },
			"a conversion":     func(g *ggml.Context, _, _ *ggml.Tensor) *ggml.Tensor { return g.Cast(w, ggml.F32) },
			"a written row":    func(g *ggml.Context, x, ids *ggml.Tensor) *ggml.Tensor { return g.SetRows(w, x, ids) },
			"a second operand": func(g *ggml.Context, x, _ *ggml.Tensor) *ggml.Tensor { return g.MulMat(x, w) },
		} {
			t.Run(name, func(t *testing.T) {
				g := ggml.NewContext()
				defer g.Close()
				x, ids := g.NewTensor(ggml.F32, 256, 1).SetInput(), g.NewTensor(ggml.I32, 1).SetInput()
				graph := g.NewGraph(op(g, x, ids))
				allocator, err := ggml.NewGraphAllocator(ggml.CPUBufferType())
				require.NoError(t, err)
				defer allocator.Close()
				if err = allocator.Alloc(graph); err == nil {
					err = cpuBackend(t, 2).Compute(context.Background(), graph)
				}
				require.Error(t, err)
			})
		}
	})
}

// Matrices that such memory has no layout for, and results, have no place in it.
func TestPackedRefuses(t *testing.T) {
	packedMemory(t, ggml.Q4_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor) {
		for name, make := range map[string]func(c *ggml.Context) *ggml.Tensor{
			"a vector":  func(c *ggml.Context) *ggml.Tensor { return c.NewTensor(ggml.F32, 64) },
			"indices":   func(c *ggml.Context) *ggml.Tensor { return c.NewTensor(ggml.I32, 64, 64) },
			"odd rows":  func(c *ggml.Context) *ggml.Tensor { return c.NewTensor(ggml.Q4_0, 32, 3) },
			"a product": func(c *ggml.Context) *ggml.Tensor { return c.MulMat(w, c.NewTensor(ggml.F32, 256, 64)) },
		} {
			t.Run(name, func(t *testing.T) {
				c := ggml.NewContext()
				defer c.Close()
				require.False(t, bt.Multiplies(make(c)))
				_, err := c.Allocate(bt)
				require.ErrorContains(t, err, "but none of this type and shape")
			})
		}
	})
}

// A file is loaded into packed memory as a whole.
func TestPackedLoad(t *testing.T) {
	packedMemory(t, ggml.Q8_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, _ *ggml.Tensor) {
		path := filepath.Join(t.TempDir(), "matrix.gguf")
		src := ggml.NewContext()
		defer src.Close()
		m := src.NewTensor(ggml.Q8_0, 1024, 2048).SetName("m") // larger than a piece of a file
		memory, err := src.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		defer memory.Close()
		g := ggml.NewGGUF()
		defer g.Close()
		require.NoError(t, g.AddTensor(m))
		require.NoError(t, g.WriteFile(path))

		file, err := ggml.OpenGGUF(path)
		require.NoError(t, err)
		defer file.Close()
		cpu, err := ggml.DeviceByType(ggml.CPU)
		require.NoError(t, err)
		dst := ggml.NewContext()
		defer dst.Close()
		buffers, err := file.Load(dst, cpu, ggml.LoadOptions{BufferType: bt})
		require.NoError(t, err)
		defer buffers.Close()
		require.True(t, dst.Lookup("m").Allocated())
	})
}

// A device that takes every op does not get a packed matrix, which it could not
// read; and a graph with one is not copied.
func TestPackedBesideServers(t *testing.T) {
	rig := newRig(t)
	packedMemory(t, ggml.Q4_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor) {
		buffers, err := c.Allocate(bt)
		require.NoError(t, err)
		defer buffers.Close()
		require.NoError(t, w.SetFloat32s(refmath.Normal(rng(1), 1, 256, 64).Float32()))
		x := placed(t, rig.devices[0], 256, 40)
		require.NoError(t, ggml.Write(x, refmath.Normal(rng(2), 1, 256, 40).Float32()))
		results := ggml.NewContext()
		defer results.Close()
		h := results.Sqr(x) // on the server, where x is
		y := results.MulMat(w, h)
		g := results.NewGraph(y)
		s := scheduler(t, rig.backends...)
		require.NoError(t, s.SetTensorBackend(h, rig.backends[0]))
		for range 2 {
			require.NoError(t, s.Alloc(g))
			require.Equal(t, rig.devices[3], s.TensorBackend(y).Device())
			require.NoError(t, s.Compute(context.Background(), g))
		}
		const message = "packed to be multiplied with cannot be copied"
		_, _, err = g.CopyTo(rig.backends[0])
		require.ErrorContains(t, err, message)
		all := ggml.NewContext()
		defer all.Close()
		product := all.NewGraph(all.MulMat(w, placed(t, rig.devices[3], 256, 1)))
		require.NoError(t, graphAllocator(t).Alloc(product))
		err = ggml.CompareBackends(context.Background(), rig.backends[3], cpuBackend(t, 1), product, func(int, *ggml.Tensor, *ggml.Tensor) error { return nil })
		require.ErrorContains(t, err, message)
		require.ErrorContains(t, s.Alloc(all.NewGraph(all.Cast(w, ggml.F32))), "it can only be the first operand of mul_mat or mul_mat_id, on the CPU")
	})
}
