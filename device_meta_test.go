package ggml_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// Two servers compute a small network together: each has half of the hidden units, and sums are
// exchanged.
func TestMetaDevice(t *testing.T) {
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	for name, devices := range map[string][]*ggml.Device{
		"servers": {remote(t, optest.StartRPCServer(t)), remote(t, optest.StartRPCServer(t))},
		"mixed":   {remote(t, optest.StartRPCServer(t)), cpu, cpu},
	} {
		t.Run(name, func(t *testing.T) {
			d := need.Value(ggml.NewMetaDevice(func(w *ggml.Tensor) ggml.TensorSplit {
				switch w.Name() {
				case "up":
					return ggml.SplitTensorEvenly(w, ggml.TensorSplitAxis1, 1, len(devices))
				case "down":
					return ggml.SplitTensorEvenly(w, ggml.TensorSplitAxis0, 1, len(devices))
				}
				return ggml.TensorSplit{Axis: ggml.TensorSplitMirrored}
			}, devices...))(t)
			require.Equal(t, ggml.MetaDevice, d.Type())
			require.Zero(t, d.Registry().Symbol("ggml_backend_set_n_threads"))
			require.Empty(t, d.Registry().Name())
			b := need.Value(d.NewBackend())(t)
			defer b.Close()
			weights, c := ggml.NewContext(), ggml.NewContext()
			defer weights.Close()
			defer c.Close()
			up, down := weights.NewTensor(ggml.F32, 16, 50).SetName("up"), weights.NewTensor(ggml.F32, 50, 8).SetName("down")
			x := weights.NewTensor(ggml.F32, 16, 3).SetName("x")
			buffers := need.Value(weights.Allocate(d.BufferType()))(t)
			defer buffers.Close()
			buffers.SetUsage(ggml.UsageWeights)
			values := map[*ggml.Tensor]refmath.Tensor{}
			for _, w := range []*ggml.Tensor{up, down, x} {
				values[w] = refmath.Normal(optest.RNG(5), 1, w.Shape()...)
				require.NoError(t, ggml.Write(w, values[w].Float32()))
				requireNear(t, values[w].Data, optest.Values(t, w), 1e-6, w)
			}
			host := placed(t, cpu, 16, 3)
			require.NoError(t, ggml.CopyTensor(host, x))
			require.NoError(t, ggml.CopyTensor(x, host))
			require.NoError(t, ggml.CopyTensor(x, x))
			require.Error(t, ggml.CopyTensor(host, c.View(x, []int64{16, 3}, nil, 0)))
			requireNear(t, values[x].Data, optest.Values(t, x), 1e-6, "copied")
			sum := c.MulMat(down, c.Relu(c.MulMat(up, x)))
			y := c.Scale(sum, 1)
			g := c.NewGraph(y)
			s := optest.NewScheduler(t, b, optest.NewCPUBackend(t, 1))
			require.NoError(t, s.Allocate(g))
			require.Equal(t, b, optest.Found(s.TensorBackend(sum)))
			hidden := refmath.MulMat(values[up], values[x])
			for i, v := range hidden.Data {
				hidden.Data[i] = max(0, v)
			}
			want := refmath.MulMat(values[down], hidden)
			for range 2 {
				require.NoError(t, s.Compute(context.Background(), g))
				requireNear(t, want.Data, optest.Values(t, y), 1e-4, name)
			}
		})
	}
}

// A bad split, or a panic of the function, is an error and does not end the process.
func TestMetaMisuse(t *testing.T) {
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	for want, split := range map[string]func(*ggml.Tensor) ggml.TensorSplit{
		"the function panicked: no": func(*ggml.Tensor) ggml.TensorSplit { panic("no") },
		"add up to 3, the axis has 4": func(*ggml.Tensor) ggml.TensorSplit {
			return ggml.TensorSplit{Axis: ggml.TensorSplitAxis1, Segments: []ggml.TensorSplitSegment{{Sizes: []int64{2, 1}}}}
		},
		"1 sizes for 2 devices": func(*ggml.Tensor) ggml.TensorSplit {
			return ggml.TensorSplit{Axis: ggml.TensorSplitAxis1, Segments: []ggml.TensorSplitSegment{{Sizes: []int64{4}}}}
		},
		"one of the axes TensorSplitAxis0 to TensorSplitAxis3": func(*ggml.Tensor) ggml.TensorSplit { return ggml.TensorSplit{Axis: ggml.TensorSplitPartial} },
		"a multiple of 32": func(w *ggml.Tensor) ggml.TensorSplit {
			return ggml.TensorSplit{Axis: ggml.TensorSplitAxis0, Segments: []ggml.TensorSplitSegment{{Sizes: []int64{60, 4}}}}
		},
	} {
		d := need.Value(ggml.NewMetaDevice(split, cpu, cpu))(t)
		c := ggml.NewContext()
		c.NewTensor(ggml.Q4_0, 64, 4)
		_, err := c.Allocate(d.BufferType())
		require.ErrorContains(t, err, want)
		c.Close()
	}
	mirrored := func(*ggml.Tensor) ggml.TensorSplit { return ggml.TensorSplit{Axis: ggml.TensorSplitMirrored} }
	d := need.Value(ggml.NewMetaDevice(mirrored, cpu, cpu))(t)
	const advice = "out of memory; close something, or use a smaller model or batch"
	_, err := d.BufferType().NewBuffer(1 << 50)
	require.EqualError(t, err, "ggml: a buffer of 1125899906842624 bytes in Meta(): "+advice)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	c := ggml.NewContext()
	defer c.Close()
	g := c.NewGraph(c.Neg(c.NewTensor(ggml.F32, 1<<20, 1<<28)))
	alloc := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
	defer alloc.Close()
	err = alloc.Allocate(g)
	require.ErrorContains(t, err, "ggml: GraphAllocator.Allocate(graph of 1 nodes): "+advice)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	_, err = ggml.NewMetaDevice(nil, cpu)
	require.ErrorContains(t, err, "a function and 1 to 16 devices")
	_, err = ggml.NewMetaDevice(mirrored)
	require.ErrorContains(t, err, "a function and 1 to 16 devices")
	_, err = ggml.NewMetaDevice(mirrored, cpu, nil)
	require.ErrorContains(t, err, "cannot contain nil or another meta device")
	require.Equal(t, "MIRRORED", ggml.TensorSplitMirrored.String())
	require.Equal(t, "TensorSplitAxis(55)", ggml.TensorSplitAxis(55).String())
}
