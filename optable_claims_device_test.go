package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// A GPU computes every op that it claims to support, among the cases of ggml's own tests, whatever
// the result: none fails only when run, which would end a process without a guard.
func TestClaimsOfCUDA(t *testing.T) {
	devices, err := ggml.CUDADevices()
	if err != nil {
		t.Skip("there is no CUDA device; make gpu-check runs this test on a stand-in")
	}
	d, claimed := devices[0], 0
	backend := need.Value(d.NewBackend())(t)
	for _, k := range readClaims(t) {
		c := ggml.NewContext()
		// Rows of ids that all select the same expert cannot come from a router, and CUDA's
		// products refuse them when run.
		if y, _ := k.build(t, c); y != nil && c.Err() == nil && d.SupportsOp(y) && k.op != "MUL_MAT_ID" {
			claimed++
			buffers, err := c.Allocate(d.BufferType())
			require.NoError(t, err)
			require.NoError(t, buffers.Clear(0)) // row indices in range
			if !assert.NoError(t, backend.Compute(t.Context(), c.NewGraph(y)), k.line) {
				backend.Close()
				backend, err = d.NewBackend() // the other is broken
				require.NoError(t, err)
			}
			buffers.Close()
		}
		c.Close()
	}
	require.NoError(t, backend.Close())
	t.Logf("%s claims %d ops", d.Name(), claimed)
	require.Greater(t, claimed, 1000)
}

// Ops that the binding refuses on CUDA would end a process there: without the refusal they assert.
// For products of experts CUDA itself reports that.
func TestRefusalsOfCUDA(t *testing.T) {
	devices, err := ggml.CUDADevices()
	if err != nil {
		t.Skip("there is no CUDA device; make gpu-check runs this test on a stand-in")
	}
	refuseAs(t, "nothing")
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.Q4_0, 256, 64), c.NewTensor(ggml.F32, 256, 256)
	y := c.MulMat(w, x).SetSourcePrecision(1, ggml.PrecisionF32)
	ofExperts := c.MulMatID(w, c.NewTensor(ggml.F32, 256, 1, 256), c.NewTensor(ggml.I32, 1, 256))
	require.True(t, devices[0].SupportsOp(ofExperts))
	require.False(t, devices[0].SupportsOp(ofExperts.SetSourcePrecision(1, ggml.PrecisionF32)))
	buffers := need.Value(c.Allocate(devices[0].BufferType()))(t)
	defer buffers.Close()
	require.NoError(t, buffers.Clear(0))
	b := need.Value(devices[0].NewBackend())(t)
	defer b.Close()
	require.True(t, devices[0].SupportsOp(y))
	require.ErrorContains(t, b.Compute(t.Context(), c.NewGraph(y)), "GGML_ASSERT")

	// XIELU of parts of rows, a transposed copy of I64, and a vector that begins at an odd number.
	leaves := ggml.NewContext()
	defer leaves.Close()
	wide, numbers := leaves.NewTensor(ggml.F32, 65, 6), leaves.NewTensor(ggml.I64, 4, 6)
	half, vector := leaves.NewTensor(ggml.F16, 64, 5), leaves.NewTensor(ggml.F32, 65, 1)
	of := need.Value(leaves.Allocate(devices[0].BufferType()))(t)
	defer of.Close()
	require.NoError(t, of.Clear(0))
	for _, y := range []*ggml.Tensor{
		c.XIELU(c.View(wide, []int64{64, 6}, []int64{wide.Stride(1)}, 0), ggml.XIELUParams{}), c.Cont(c.Transpose(numbers)),
		c.MulMat(half, c.View(vector, []int64{64, 1}, []int64{vector.Stride(1)}, 0)), c.ArgSort(c.View(wide, []int64{64, 6}, []int64{wide.Stride(1)}, 0), ggml.Ascending),
	} {
		g := c.NewGraph(y)
		a := need.Value(ggml.NewGraphAllocator(devices[0].BufferType()))(t)
		require.NoError(t, a.Allocate(g), y.Op())
		broken := need.Value(devices[0].NewBackend())(t)
		assert.ErrorContains(t, broken.Compute(t.Context(), g), ".cu:", y.Op())
		broken.Close()
		a.Close()
	}
}
