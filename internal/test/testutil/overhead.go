package testutil

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml/internal/computethread"
)

// Overhead repeats a step, and reports its tokens per second and its time outside of graph computations,
// relative to the time inside.
func Overhead(b *testing.B, tokens int, step func() error) {
	b.Helper()
	steps, computed := 0, computethread.Computed()
	start := time.Now()
	for b.Loop() {
		require.NoError(b, step())
		steps++
	}
	took := time.Since(start)
	computed = computethread.Computed() - computed
	b.ReportMetric(float64(steps*tokens)/took.Seconds(), "tok/s")
	b.ReportMetric(100*(took-computed).Seconds()/computed.Seconds(), "overhead-%")
	b.ReportMetric(0, "ns/op")
}
