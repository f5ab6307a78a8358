package ggml_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// eachRepackingType calls f for each of the processor's repacking types of memory that supports
// matrices of a type.
func eachRepackingType(t *testing.T, typ ggml.Type, f func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor)) {
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	for _, bt := range cpu.ExtraBufferTypes() {
		c := ggml.NewContext()
		w := c.NewTensor(typ, 256, 64).SetName("w")
		if !bt.IsHost() && bt.SupportsMulMat(w) {
			t.Run(fmt.Sprintf("%s %v", bt.Name(), typ), func(t *testing.T) { f(t, bt, c, w) })
		}
		c.Close()
	}
}

// Products with repacked weights equal those with row-major weights.
func TestRepackedMulMat(t *testing.T) {
	backend := optest.NewCPUBackend(t, 2)
	for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K, ggml.Q6_K, ggml.IQ4NL} {
		eachRepackingType(t, typ, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, repacked *ggml.Tensor) {
			rng := rand.New(rand.NewPCG(1, 1))
			values := make([]float32, repacked.NumElements())
			for i := range values {
				values[i] = float32(rng.NormFloat64())
			}
			plainContext := ggml.NewContext()
			defer plainContext.Close()
			plain := plainContext.NewTensor(typ, repacked.Shape()...)
			for _, x := range []struct {
				c  *ggml.Context
				w  *ggml.Tensor
				bt *ggml.BufferType
			}{{c, repacked, bt}, {plainContext, plain, ggml.CPUBufferType()}} {
				buffers := need.Value(x.c.Allocate(x.bt))(t)
				defer buffers.Close()
				require.NoError(t, x.w.SetFloat32s(values))
			}
			for _, n := range []int64{1, 3, 40} {
				g := ggml.NewContext()
				defer g.Close()
				x := g.NewTensor(ggml.F32, 256, n).SetInput()
				got, want := g.MulMat(repacked, x), g.MulMat(plain, x)
				graph := g.NewGraph(got, want)
				require.NoError(t, optest.NewGraphAllocator(t).Allocate(graph))
				require.NoError(t, ggml.Write(x, values[:256*n]))
				require.NoError(t, backend.Compute(context.Background(), graph))
				a := need.Value(ggml.Read[float32](got))(t)
				b := need.Value(ggml.Read[float32](want))(t)
				require.Less(t, refmath.NMSE(a, b), 1e-3)
			}
		})
	}
}

// A repacked matrix supports nothing else, and errors say so.
func TestRepackedMisuse(t *testing.T) {
	eachRepackingType(t, ggml.Q4_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor) {
		half := c.View(w, []int64{256, 32}, nil, 0)
		buffers := need.Value(c.Allocate(bt))(t)
		defer buffers.Close()
		data := make([]byte, w.NumBytes())

		const cannot = "the tensor holds repacked weights, which can only be written, and as a whole"
		require.NoError(t, optest.Err(w.WriteAt(data, 0)))
		require.ErrorContains(t, optest.Err(w.WriteAt(data[:18], 0)), "the tensor holds repacked weights; write all of its 9216 bytes at once")
		require.ErrorContains(t, optest.Err(w.WriteAt(data[18:], 18)), "at once")
		require.ErrorContains(t, optest.Err(half.WriteAt(data[:half.NumBytes()], 0)), "at once")
		require.ErrorContains(t, optest.Err(w.ReadAt(data, 0)), cannot)
		require.ErrorContains(t, w.Memset(0), cannot)
		_, err := w.Float32s()
		require.ErrorContains(t, err, cannot)
		require.ErrorContains(t, w.WriteRegion(data, ggml.Region2D{Width: 9216, Rows: 1, Stride: 9216}), cannot)
		require.ErrorContains(t, optest.NewCPUBackend(t, 2).WriteAsync(w, data, 0), cannot)

		other := ggml.NewContext()
		defer other.Close()
		plain := other.NewTensor(ggml.Q4_0, 256, 64)
		memory := need.Value(other.Allocate(ggml.CPUBufferType()))(t)
		defer memory.Close()
		require.ErrorContains(t, ggml.CopyTensor(plain, w), "cannot be copied")
		require.ErrorContains(t, ggml.CopyTensor(w, plain), "cannot be copied")

		_, err = ggml.NewGraphAllocator(bt)
		require.ErrorContains(t, err, "not results")
		for name, op := range map[string]func(g *ggml.Context, x, ids *ggml.Tensor) *ggml.Tensor{
			"a view":           func(g *ggml.Context, x, _ *ggml.Tensor) *ggml.Tensor { return g.MulMat(half, x) },
			"the rows":         func(g *ggml.Context, _, ids *ggml.Tensor) *ggml.Tensor { return g.GetRows(w, ids) },
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
				if err = allocator.Allocate(graph); err == nil {
					err = optest.NewCPUBackend(t, 2).Compute(context.Background(), graph)
				}
				require.Error(t, err)
			})
		}
	})
}

// Repacking memory refuses matrices without a repacking layout, and results.
func TestRepackRefuses(t *testing.T) {
	eachRepackingType(t, ggml.Q4_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor) {
		for name, make := range map[string]func(c *ggml.Context) *ggml.Tensor{
			"a vector":  func(c *ggml.Context) *ggml.Tensor { return c.NewTensor(ggml.F32, 64) },
			"indices":   func(c *ggml.Context) *ggml.Tensor { return c.NewTensor(ggml.I32, 64, 64) },
			"odd rows":  func(c *ggml.Context) *ggml.Tensor { return c.NewTensor(ggml.Q4_0, 32, 3) },
			"a product": func(c *ggml.Context) *ggml.Tensor { return c.MulMat(w, c.NewTensor(ggml.F32, 256, 64)) },
		} {
			t.Run(name, func(t *testing.T) {
				c := ggml.NewContext()
				defer c.Close()
				require.False(t, bt.SupportsMulMat(make(c)))
				_, err := c.Allocate(bt)
				require.ErrorContains(t, err, "but none of this type and shape")
			})
		}
	})
}

// Loading a file repacks each tensor as a whole.
func TestRepackedLoad(t *testing.T) {
	eachRepackingType(t, ggml.Q8_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, _ *ggml.Tensor) {
		path := filepath.Join(t.TempDir(), "matrix.gguf")
		src := ggml.NewContext()
		defer src.Close()
		m := src.NewTensor(ggml.Q8_0, 1024, 2048).SetName("m") // larger than a chunk of a file
		memory := need.Value(src.Allocate(ggml.CPUBufferType()))(t)
		defer memory.Close()
		g := need.Value(ggml.NewGGUF())(t)
		defer g.Close()
		require.NoError(t, g.AddTensor(m))
		require.NoError(t, g.WriteFile(path))

		file := need.Value(ggml.OpenGGUF(path))(t)
		defer file.Close()
		cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
		dst := ggml.NewContext()
		defer dst.Close()
		buffers := need.Value(file.Load(dst, cpu, ggml.LoadOptions{BufferType: bt}))(t)
		defer buffers.Close()
		require.True(t, optest.Found(dst.Tensor("m")).IsAllocated())
	})
}

// A device that claims to support every op does not get a repacked matrix, which it could not read;
// a graph with one cannot be copied.
func TestRepackedBesideServers(t *testing.T) {
	rig := newRig(t)
	eachRepackingType(t, ggml.Q4_0, func(t *testing.T, bt *ggml.BufferType, c *ggml.Context, w *ggml.Tensor) {
		buffers := need.Value(c.Allocate(bt))(t)
		defer buffers.Close()
		require.NoError(t, w.SetFloat32s(refmath.Normal(optest.RNG(1), 1, 256, 64).Float32()))
		x := placed(t, rig.devices[0], 256, 40)
		require.NoError(t, ggml.Write(x, refmath.Normal(optest.RNG(2), 1, 256, 40).Float32()))
		results := ggml.NewContext()
		defer results.Close()
		h := results.Sqr(x) // on the server, where x is
		y := results.MulMat(w, h)
		g := results.NewGraph(y)
		s := optest.NewScheduler(t, rig.backends...)
		require.NoError(t, s.SetTensorBackend(h, rig.backends[0]))
		for range 2 {
			require.NoError(t, s.Allocate(g))
			require.Equal(t, rig.devices[3], optest.Found(s.TensorBackend(y)).Device())
			require.NoError(t, s.Compute(context.Background(), g))
		}
		const message = "repacked weights cannot be copied"
		_, _, err := g.CopyTo(rig.backends[0])
		require.ErrorContains(t, err, message)
		all := ggml.NewContext()
		defer all.Close()
		product := all.NewGraph(all.MulMat(w, placed(t, rig.devices[3], 256, 1)))
		require.NoError(t, optest.NewGraphAllocator(t).Allocate(product))
		err = product.CompareBackends(context.Background(), ggml.CompareOptions{First: rig.backends[3], Second: optest.NewCPUBackend(t, 1), Compare: func(int, *ggml.Tensor, *ggml.Tensor) error { return nil }})
		require.ErrorContains(t, err, message)
		require.ErrorContains(t, s.Allocate(all.NewGraph(all.Cast(w, ggml.F32))), "it can only be the first operand of mul_mat or mul_mat_id, on the CPU")
	})
}
