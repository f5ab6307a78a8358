package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
	"github.com/goggml/ggml/internal/testhook"
)

// refuseAs makes devices other than the CPU stand for those of a backend.
func refuseAs(t *testing.T, backend string) {
	testhook.RefuseAs(backend)
	t.Cleanup(func() { testhook.RefuseAs("") })
}

// What a device of CUDA says that it computes, and would end the process on, is refused; other devices compute it.
func TestRefusedOps(t *testing.T) {
	rig := newRig(t)
	device, far, cpu := rig.devices[0], rig.backends[0], rig.backends[len(rig.backends)-1]
	for _, k := range []struct {
		backend   string
		weights   ggml.Type
		precision ggml.Precision
		refused   bool
	}{
		{"CUDA", ggml.Q8_0, ggml.PrecisionF32, true},
		{"CUDA", ggml.Q4_0, ggml.PrecisionBF16, true},
		{"ROCm", ggml.Q4_0, ggml.PrecisionF16, true},
		{"MUSA", ggml.Q4_0, ggml.PrecisionF16, true},
		{"CUDA", ggml.Q8_0, ggml.PrecisionQ8, false},
		{"CUDA", ggml.Q8_0, ggml.PrecisionQ4, false},
		{"CUDA", ggml.Q8_0, ggml.PrecisionAny, false},
		{"CUDA", ggml.F16, ggml.PrecisionF32, false},
		{"Vulkan", ggml.Q8_0, ggml.PrecisionF32, false},
	} {
		t.Run(k.backend+"/"+k.weights.String()+"/"+k.precision.String(), func(t *testing.T) {
			refuseAs(t, k.backend)
			leaves, c := ggml.NewContext(), ggml.NewContext()
			defer leaves.Close()
			defer c.Close()
			w, x := leaves.NewTensor(k.weights, 64, 5), leaves.NewTensor(ggml.F32, 64, 20)
			buffers, err := leaves.Allocate(device.BufferType())
			require.NoError(t, err)
			defer buffers.Close()
			random := optest.RNG(3)
			wv, xv := refmath.Normal(random, 1, 64, 5), refmath.Normal(random, 1, 64, 20)
			require.NoError(t, w.SetFloat32s(wv.Float32()))
			require.NoError(t, x.SetFloat32s(xv.Float32()))
			y := c.MulMat(w, x)
			require.True(t, device.SupportsOp(y))
			y.SetSourcePrecision(1, k.precision)
			require.Equal(t, !k.refused, device.SupportsOp(y))
			require.True(t, cpu.Device().SupportsOp(y))

			// On the device alone it is an error, by a scheduler the CPU computes it.
			g := c.NewGraph(y)
			a, err := ggml.NewGraphAllocator(far.BufferType())
			require.NoError(t, err)
			defer a.Close()
			require.NoError(t, a.Allocate(g))
			err = far.Compute(t.Context(), g)
			if k.refused {
				require.ErrorContains(t, err, "mul_mat")
				require.ErrorContains(t, err, device.Name()+" multiplies quantised weights by operands of 8 bits, and ends the process where SetSourcePrecision demands more; leave that out, or use a Scheduler with the CPU")
			} else {
				require.NoError(t, err)
			}
			require.NoError(t, a.Close())
			s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, far, cpu)
			require.NoError(t, err)
			defer s.Close()
			require.NoError(t, s.Allocate(g))
			on, ok := s.TensorBackend(y)
			require.True(t, ok)
			require.Equal(t, k.refused, on == cpu)
			require.NoError(t, s.Compute(t.Context(), g))
			want := refmath.MulMat(refmath.From(optest.Values(t, w), 64, 5), xv)
			requireNear(t, want.Data, optest.Values(t, y), 0.2, k)
			if k.refused {
				require.ErrorContains(t, s.SetTensorBackend(y, far), "does not support this op")
			}
		})
	}
}

// quantisedProduct is a graph of one product, whose operands are on a device.
func quantisedProduct(t *testing.T, d *ggml.Device) (c *ggml.Context, y *ggml.Tensor, g *ggml.Graph) {
	t.Helper()
	leaves, c := ggml.NewContext(), ggml.NewContext()
	t.Cleanup(func() { leaves.Close() })
	t.Cleanup(func() { c.Close() })
	w, x := leaves.NewTensor(ggml.Q8_0, 64, 5), leaves.NewTensor(ggml.F32, 64, 20)
	buffers, err := leaves.Allocate(d.BufferType())
	require.NoError(t, err)
	t.Cleanup(func() { buffers.Close() })
	require.NoError(t, buffers.Clear(0))
	y = c.MulMat(w, x)
	return c, y, c.NewGraph(y)
}

// A precision that is set after a graph was checked is seen, and none is set after the graph was allocated.
func TestRefusedAfterCheck(t *testing.T) {
	rig := newRig(t)
	refuseAs(t, "CUDA")
	c, y, g := quantisedProduct(t, rig.devices[0])
	a, err := ggml.NewGraphAllocator(rig.devices[0].BufferType())
	require.NoError(t, err)
	defer a.Close()
	require.NoError(t, a.Allocate(g))
	require.NoError(t, rig.backends[0].Compute(t.Context(), g))
	require.NoError(t, a.Close())
	y.SetSourcePrecision(1, ggml.PrecisionF32)
	require.NoError(t, c.Err())
	s, err := ggml.NewScheduler(ggml.SchedulerOptions{}, rig.backends[0], rig.backends[len(rig.backends)-1])
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Allocate(g))
	on, ok := s.TensorBackend(y)
	require.True(t, ok)
	require.True(t, on.IsCPU())
	require.NoError(t, s.Compute(t.Context(), g))
	y.SetSourcePrecision(1, ggml.PrecisionF32)
	require.ErrorContains(t, c.Err(), "the tensor has memory already; set the precision before it is allocated")
}

// The same on a device alone.
func TestRefusedAfterReserve(t *testing.T) {
	rig := newRig(t)
	refuseAs(t, "CUDA")
	_, y, g := quantisedProduct(t, rig.devices[0])
	for _, precision := range []ggml.Precision{ggml.PrecisionAny, ggml.PrecisionF32} {
		y.SetSourcePrecision(1, precision)
		a, err := ggml.NewGraphAllocator(rig.devices[0].BufferType())
		require.NoError(t, err)
		require.NoError(t, a.Allocate(g))
		err = rig.backends[0].Compute(t.Context(), g)
		require.NoError(t, a.Close())
		if precision == ggml.PrecisionAny {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "ends the process")
		}
	}
}
