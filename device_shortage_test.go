package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// If a device has too little memory, the error names the needed and the available memory; a smaller
// allocation then succeeds.
func TestOutOfMemory(t *testing.T) {
	captureLog(t)
	rig := newRig(t)
	device, far, cpu := rig.devices[0], rig.backends[0], rig.backends[len(rig.backends)-1]
	const advice = "; use a smaller batch or context"

	_, err := ggml.CPUBufferType().NewBuffer(1 << 49)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.Regexp(t, `^ggml: a buffer of 562949953421312 bytes in CPU: out of memory: 512 TiB are needed on CPU, which has [0-9.e+]+ .iB; close something, or use a smaller model or batch$`, err.Error())
	_, err = device.BufferType().NewBuffer(min(1<<49, device.BufferType().MaxSize()))
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.Regexp(t, `: out of memory: [0-9]+ TiB are needed on `+device.Name()+`, which has [0-9.e+]+ .iB free of [0-9.e+]+ .iB; close something`, err.Error())

	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	w := leaves.NewTensor(ggml.F32, 64, 8)
	buffers := need.Value(leaves.Allocate(device.BufferType()))(t)
	defer buffers.Close()
	buffers.SetUsage(ggml.UsageWeights)
	product := func(n int64) *ggml.Graph { return c.NewGraph(c.MulMat(w, c.NewTensor(ggml.F32, 64, n))) }

	a := need.Value(ggml.NewGraphAllocator(ggml.CPUBufferType()))(t)
	defer a.Close()
	large := c.NewGraph(c.Neg(c.NewTensor(ggml.F32, 1<<20, 1<<26)))
	err = a.Allocate(large)
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.Regexp(t, `out of memory: (256|512) TiB are needed on CPU, which has [0-9.e+]+ .iB`+advice, err.Error())
	require.NoError(t, a.Allocate(c.NewGraph(c.Neg(c.NewTensor(ggml.F32, 10)))))

	s := need.Value(ggml.NewScheduler(ggml.SchedulerOptions{}, far, cpu))(t)
	defer s.Close()
	err = s.Allocate(product(1 << 40))
	require.ErrorIs(t, err, ggml.ErrOutOfMemory)
	require.Regexp(t, `out of memory: [0-9.e+]+ TiB are needed on `+device.Name()+`, which has [0-9.e+]+ .iB free of [0-9.e+]+ .iB`+advice, err.Error())
	g := product(3)
	require.NoError(t, s.Allocate(g))
	sizes, err := s.Measure(product(1 << 40)) // allocates nothing
	require.NoError(t, err)
	require.Greater(t, sizes[0], int64(32)<<40)
}
