package ggml_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestCPUFeatures(t *testing.T) {
	features := need.Value(ggml.CPUFeatures())(t)
	require.NotEmpty(t, features)
	for _, f := range features {
		require.NotEmpty(t, f.Name)
		require.NotEmpty(t, f.Value)
		require.Equal(t, f.Name, strings.TrimSpace(f.Name))
	}
}

// Initialising NUMA twice, and querying it, is harmless.
func TestNUMA(t *testing.T) {
	captureLog(t)
	require.NoError(t, ggml.InitNUMA(ggml.NUMADisabled))
	require.NoError(t, ggml.InitNUMA(ggml.NUMADisabled))
	require.Equal(t, ggml.IsNUMA(), ggml.IsNUMA())
	g, _ := steps(t, 2)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	require.NoError(t, optest.NewCPUBackend(t, 2).Compute(context.Background(), g))
}
