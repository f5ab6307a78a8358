package kernels_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
)

// A failedProduct is the result of a product of many tiles: first memory was short, then another
// backend computed it.
type failedProduct struct {
	Broken bool // of the first failure
	Reason string
	Later  bool // whether the failed backend computes again
	Right  bool // whether the other backend's result is right
}

var failProduct = testutil.NewJob("failProduct", func(struct{}) (r failedProduct, err error) {
	c := ggml.NewContext()
	defer c.Close()
	const k, m, n = 2048, 1024, 128
	w, x := c.NewTensor(ggml.Q8_0, k, m), c.NewTensor(ggml.F32, k, n)
	y, same := kernels.GEMM(c, exact, pair(w, x)), kernels.GEMM(c, exact, pair(w, x))
	product, again := c.NewGraph(y), c.NewGraph(same)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	if err != nil {
		return r, err
	}
	defer buffers.Close()
	values := make([]float32, k*m)
	for i := range values {
		values[i] = float32(i%13) - 6
	}
	if err := errors.Join(w.SetFloat32s(values), x.SetFloat32s(values[:k*n])); err != nil {
		return r, err
	}
	failing, err := ggml.NewCPUBackend(1)
	if err != nil {
		return r, err
	}
	defer failing.Close()
	other, err := ggml.NewCPUBackend(1)
	if err != nil {
		return r, err
	}
	defer other.Close()

	var failure error
	err = withoutMemory(func() { failure = failing.Compute(context.Background(), product) })
	if err != nil || failure == nil {
		return r, err
	}
	r.Broken, r.Reason = errors.Is(failure, ggml.ErrBroken), failure.Error()
	r.Later = failing.Compute(context.Background(), again) == nil
	if err := errors.Join(other.Compute(context.Background(), product), other.Compute(context.Background(), again)); err != nil {
		return r, err
	}
	got, err := y.Float32s()
	if err != nil {
		return r, err
	}
	want, err := same.Float32s()
	r.Right = slices.Equal(got, want)
	return r, err
})

// withoutMemory calls f while the system refuses the process more memory. The setting of
// TestProductOutOfMemory makes its C library keep little in reserve.
func withoutMemory(f func()) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	none := unix.Rlimit{Cur: 1, Max: limit.Max} // 0 means no limit
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &none); err != nil {
		return err
	}
	f()
	return unix.Setrlimit(unix.RLIMIT_DATA, &limit)
}

// A failure inside a product spoils neither the thread nor its next computation.
func TestProductOutOfMemory(t *testing.T) {
	needsLibrary(t)
	t.Setenv("MALLOC_MMAP_THRESHOLD_", "65536")
	r, _, err := failProduct.Run(struct{}{})
	require.NoError(t, err)
	require.Contains(t, r.Reason, "out of memory")
	require.True(t, r.Broken)
	require.False(t, r.Later)
	require.True(t, r.Right)
}
