package kernels_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/kernels"
)

// The signals of a CPU profile corrupt no memory on any thread.
func TestGEMMWhileProfiled(t *testing.T) {
	need.Time(t, "two seconds of signals")
	if library(t) == "" {
		t.Skip("there is no GEMM library")
	}
	b, alloc := optest.NewCPUBackend(t, 2), optest.NewGraphAllocator(t)
	c := ggml.NewContext()
	defer c.Close()
	g := c.NewGraph(kernels.GEMMGradWeight(c, c.NewTensor(ggml.F32, 40, 100), c.NewTensor(ggml.F32, 9, 100)))
	require.NoError(t, alloc.Allocate(g))
	runtime.SetCPUProfileRate(5000)
	defer runtime.SetCPUProfileRate(0)
	for start := time.Now(); time.Since(start) < 2*time.Second; {
		require.NoError(t, b.Compute(t.Context(), g))
	}
}
