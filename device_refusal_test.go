package ggml_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/internal/testhook"
)

// refuseAs makes devices other than the CPU's pretend to belong to a backend.
func refuseAs(t *testing.T, backend string) {
	testhook.RefuseAs(backend)
	t.Cleanup(func() { testhook.RefuseAs("") })
}

// Ops that CUDA claims to support, but that would end the process, are refused; other devices
// compute them.
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
			buffers := need.Value(leaves.Allocate(device.BufferType()))(t)
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

			// On the device alone it is an error; with a scheduler the CPU computes it.
			g := c.NewGraph(y)
			a := need.Value(ggml.NewGraphAllocator(far.BufferType()))(t)
			defer a.Close()
			require.NoError(t, a.Allocate(g))
			err := far.Compute(t.Context(), g)
			if k.refused {
				require.ErrorContains(t, err, "mul_mat")
				require.ErrorContains(t, err, device.Name()+" multiplies quantised weights by operands of 8 bits, and ends the process if SetSourcePrecision requires more; do not call it, or use a Scheduler with the CPU")
			} else {
				require.NoError(t, err)
			}
			require.NoError(t, a.Close())
			s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, far, cpu))(t)
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

// Layouts, types and sizes that CUDA and Vulkan claim to support, but compute wrongly or not at
// all, are refused; the nearest supported ones are not.
func TestRefusedOperands(t *testing.T) {
	d := newRig(t).devices[0]
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	of := func(typ ggml.Type, ne ...int64) *ggml.Tensor { return leaves.NewTensor(typ, ne...) }
	part := func(typ ggml.Type) *ggml.Tensor { // rows of 64 of 128
		x := of(typ, 128, 6)
		return c.View(x, []int64{64, 6}, []int64{x.Stride(1)}, 0)
	}
	shifted := func() *ggml.Tensor { // rows of 64 of 65, from the second number on
		x := of(ggml.F32, 65, 6)
		return c.View(x, []int64{64, 6}, []int64{x.Stride(1)}, 4)
	}
	rope := func(sections [4]int) *ggml.Tensor {
		return c.RoPE(of(ggml.F32, 16, 2, 3), of(ggml.I32, 12), nil, ggml.RoPE{Mode: ggml.RoPEVision, Dims: 8, FreqBase: 1e4, FreqScale: 1, AttnFactor: 1, Sections: sections})
	}
	delta := func(n int64) *ggml.Tensor {
		v := func() *ggml.Tensor { return of(ggml.F32, n, 2, 3, 1) }
		return c.GatedDeltaNet(ggml.GatedDeltaNetOperands{
			Q: v(), K: v(), V: v(), G: of(ggml.F32, 1, 2, 3, 1), Beta: of(ggml.F32, 1, 2, 3, 1), State: of(ggml.F32, n, n, 2, 1),
		})
	}
	const gaps, both = "this layout wrongly or not at all", "CUDA Vulkan"
	cases := map[string]struct {
		backends      string
		refused, good *ggml.Tensor
		why           string
	}{
		"mul_mat q4_0":     {"CUDA", c.MulMat(of(ggml.Q4_0, 64, 5), shifted()), c.MulMat(of(ggml.Q4_0, 64, 5), of(ggml.F32, 64, 6)), "multiples of 8 bytes, of 16 for quantised weights"},
		"mul_mat f16":      {"CUDA", c.MulMat(of(ggml.F16, 64, 5), shifted()), c.MulMat(of(ggml.F16, 64, 5), of(ggml.F32, 64, 6)), "multiples of 8 bytes"},
		"mul_mat of views": {"CUDA", c.MulMat(part(ggml.Q4_1), of(ggml.F32, 64, 6)), c.MulMat(of(ggml.Q4_1, 64, 6), of(ggml.F32, 64, 6)), "beyond the rows of quantised weights"},
		"set":              {"CUDA", c.Set(of(ggml.F32, 64, 20), part(ggml.F32), [3]int64{256, 2048, 2048}, 0), c.Set(of(ggml.F32, 64, 20), of(ggml.F32, 64, 6), [3]int64{256, 2048, 2048}, 0), gaps},
		"xielu":            {"CUDA", c.XIELU(part(ggml.F32), ggml.XIELUParams{}), c.XIELU(of(ggml.F32, 64, 6), ggml.XIELUParams{}), gaps},
		"abs in place":     {"CUDA", c.AbsInPlace(part(ggml.F32)), c.Abs(part(ggml.F32)), gaps},
		"argsort":          {"CUDA", c.ArgSort(part(ggml.F32), ggml.Ascending), c.ArgSort(of(ggml.F32, 64, 6), ggml.Ascending), gaps},
		"sum":              {"CUDA", c.Sum(part(ggml.F32)), c.Sum(of(ggml.F32, 64, 6)), gaps},
		"sum f16":          {"CUDA", c.Sum(of(ggml.F16, 64)), c.Sum(of(ggml.F32, 64)), "of F32 alone"},
		"i64 transposed":   {both, c.Cont(c.Transpose(of(ggml.I64, 4, 6))), c.Cont(c.Transpose(of(ggml.I32, 4, 6))), gaps},
		"i64 on Vulkan":    {"Vulkan", c.Cont(of(ggml.I64, 4, 6)), c.Cont(of(ggml.I32, 4, 6)), "copies no I64"},
		"dequantise":       {"Vulkan", c.Cast(part(ggml.Q8_0), ggml.F32), c.Cast(of(ggml.Q8_0, 64, 6), ggml.F32), gaps},
		"concat":           {"Vulkan", c.Concat(part(ggml.Q8_0), of(ggml.Q8_0, 64, 6), 1), c.Concat(of(ggml.Q8_0, 64, 6), of(ggml.Q8_0, 64, 6), 1), gaps},
		"delta":            {"CUDA", delta(8), delta(16), "head size"},
		"vision":           {both, rope([4]int{2, 2, 2, 2}), rope([4]int{4, 4}), "two of the sections"},
	}
	require.NoError(t, errors.Join(leaves.Err(), c.Err()))
	buffers := need.Value(leaves.Allocate(d.BufferType()))(t)
	defer buffers.Close()
	for name, k := range cases {
		t.Run(name, func(t *testing.T) {
			require.True(t, d.SupportsOp(k.refused), "of no such backend")
			for _, backend := range []string{"CUDA", "Vulkan", "Metal"} {
				refuseAs(t, backend)
				require.True(t, d.SupportsOp(k.good), backend)
				require.Equal(t, !strings.Contains(k.backends, backend), d.SupportsOp(k.refused), backend)
			}
			refuseAs(t, strings.Fields(k.backends)[0])
			b := need.Value(d.NewBackend())(t)
			defer b.Close()
			g := c.NewGraph(k.refused)
			a := need.Value(ggml.NewGraphAllocator(d.BufferType()))(t)
			defer a.Close()
			require.NoError(t, a.Allocate(g))
			require.ErrorContains(t, b.Compute(t.Context(), g), k.why)
		})
	}
}

// quantisedProduct returns a graph of one product, whose operands are on a device.
func quantisedProduct(t *testing.T, d *ggml.Device) (c *ggml.Context, y *ggml.Tensor, g *ggml.Graph) {
	t.Helper()
	leaves, c := ggml.NewContext(), ggml.NewContext()
	t.Cleanup(func() { leaves.Close() })
	t.Cleanup(func() { c.Close() })
	w, x := leaves.NewTensor(ggml.Q8_0, 64, 5), leaves.NewTensor(ggml.F32, 64, 20)
	buffers := need.Value(leaves.Allocate(d.BufferType()))(t)
	t.Cleanup(func() { buffers.Close() })
	require.NoError(t, buffers.Clear(0))
	y = c.MulMat(w, x)
	return c, y, c.NewGraph(y)
}

// A precision set after a graph was checked takes effect; after allocation none can be set.
func TestRefusedAfterCheck(t *testing.T) {
	rig := newRig(t)
	refuseAs(t, "CUDA")
	c, y, g := quantisedProduct(t, rig.devices[0])
	a := need.Value(ggml.NewGraphAllocator(rig.devices[0].BufferType()))(t)
	defer a.Close()
	require.NoError(t, a.Allocate(g))
	require.NoError(t, rig.backends[0].Compute(t.Context(), g))
	require.NoError(t, a.Close())
	y.SetSourcePrecision(1, ggml.PrecisionF32)
	require.NoError(t, c.Err())
	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, rig.backends[0], rig.backends[len(rig.backends)-1]))(t)
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
		a := need.Value(ggml.NewGraphAllocator(rig.devices[0].BufferType()))(t)
		require.NoError(t, a.Allocate(g))
		err := rig.backends[0].Compute(t.Context(), g)
		require.NoError(t, a.Close())
		if precision == ggml.PrecisionAny {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "ends the process")
		}
	}
}
