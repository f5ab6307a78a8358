package ggml_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

// A function copies only the used matrices of a mixture of experts to the computing device.
func TestCopyCallback(t *testing.T) {
	const width, experts = 64, 8
	cpuDevice := need.Value(ggml.DeviceByType(ggml.CPU))(t)
	d := remote(t, optest.StartRPCServer(t))
	b := need.Value(d.NewBackend())(t)
	defer b.Close()
	s := optest.NewScheduler(t, b, optest.NewCPUBackend(t, 1))
	w := placed(t, cpuDevice, width, width, experts).SetName("experts")
	placedBuffers[w].SetUsage(ggml.UsageWeights)
	values := refmath.Normal(optest.RNG(1), 1, width, width, experts)
	require.NoError(t, ggml.Write(w, values.Float32()))
	c := ggml.NewContext()
	defer c.Close()
	x, ids := c.NewTensor(ggml.F32, width, 1, 2).SetInput(), c.NewTensor(ggml.I32, 1, 2).SetInput()
	y := c.MulMatID(w, x, ids)
	g := c.NewGraph(y)

	var copied []int32
	var leaked *ggml.WeightCopy
	var saved ggml.WeightCopy
	failure := error(nil)
	require.NoError(t, s.SetCopyCallback(func(w *ggml.WeightCopy) (bool, error) {
		leaked, saved = w, *w
		require.Equal(t, b, w.Backend)
		require.Equal(t, "experts", w.Weight.Name())
		node := w.Nodes()[0]
		require.True(t, node.Is(y))
		operands, err := w.Operands(node)
		if err != nil {
			return false, err
		}
		used, err := ggml.Read[int32](operands[2])
		if err != nil {
			return false, err
		}
		copied = slices.Compact(slices.Sorted(slices.Values(used)))
		require.ErrorContains(t, w.Copy(0, w.Weight.NumBytes()+1), "reach beyond the tensor")
		for _, id := range copied {
			if err := w.Copy(int64(id)*w.Weight.Stride(2), w.Weight.Stride(2)); err != nil {
				return false, err
			}
		}
		return true, failure
	}))
	run := func(used ...int32) error {
		require.NoError(t, s.SetTensorBackend(y, b))
		require.NoError(t, s.Allocate(g))
		require.NoError(t, ggml.Write(ids, used))
		require.NoError(t, ggml.Write(x, refmath.Normal(optest.RNG(2), 1, width, 1, 2).Float32()))
		return s.Compute(context.Background(), g)
	}
	want := func(used ...int32) (want []float64) {
		x := refmath.Normal(optest.RNG(2), 1, width, 1, 2)
		for i, id := range used {
			matrix := refmath.From(values.Data[int(id)*width*width:][:width*width], width, width)
			want = append(want, refmath.MulMat(matrix, refmath.From(x.Data[i*width:][:width], width)).Data...)
		}
		return want
	}
	for _, used := range [][]int32{{3, 5}, {7, 0}, {2, 2}} {
		copied = nil
		require.NoError(t, run(used...))
		require.Equal(t, slices.Compact(slices.Sorted(slices.Values(used))), copied)
		requireNear(t, want(used...), optest.Values(t, y), 1e-4, used)
	}
	require.Error(t, leaked.Copy(0, 4))
	require.Error(t, saved.Copy(0, 4))
	require.Empty(t, leaked.Nodes())
	_, err := leaked.Operands(y)
	require.Error(t, err)

	failure = errors.New("no such expert")
	require.ErrorIs(t, run(1, 1), failure)
	require.NoError(t, s.SetCopyCallback(func(*ggml.WeightCopy) (bool, error) { panic("oh") }))
	var p *ggml.PanicError
	require.ErrorAs(t, run(1, 1), &p)
	require.Equal(t, "oh", p.Value)
	require.NoError(t, s.SetCopyCallback(func(*ggml.WeightCopy) (bool, error) { return false, nil }))
	require.NoError(t, run(4, 6))
	requireNear(t, want(4, 6), optest.Values(t, y), 1e-4, "all copied")
	require.NoError(t, s.SetCopyCallback(nil))
	require.NoError(t, run(1, 6))
	requireNear(t, want(1, 6), optest.Values(t, y), 1e-4, "no function")
}
