package ggml_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/baseline"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/testutil"
)

// sideBySide runs ours and theirs in turn, so that both run under the same load, and reports the
// median of the ratios of their times.
func sideBySide(b *testing.B, unit string, ours, theirs func()) {
	rounds, budget := testutil.BenchTime(b)
	testutil.Once(b, func() {
		turns := testutil.InTurn(rounds, budget, timed(ours), timed(theirs))
		b.ReportMetric(turns.Ratio(0, 1), unit)
		b.ReportMetric(float64(turns.Median(0).Nanoseconds()), "ns/ours")
	})
}

func timed(f func()) func() time.Duration {
	return func() time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
}

func residualBlocks(c *ggml.Context, n int, w, x *ggml.Tensor) *ggml.Graph {
	for range n {
		x = c.Add(c.Silu(c.RMSNorm(c.MulMat(w, x), 1e-5)), x)
	}
	return c.NewGraph(x)
}

// Building a graph of 1,000 ops on operands of two contexts, compared with C: the goal is a ratio
// of at most 4, and one allocation per node.
func BenchmarkBuildGraph(b *testing.B) {
	const nodes = 4 * baseline.Blocks
	weights := ggml.NewContext()
	defer weights.Close()
	w := weights.NewTensor(ggml.F32, 64, 64)
	build := func() {
		c := ggml.NewContext()
		g := residualBlocks(c, baseline.Blocks, w, c.NewTensor(ggml.F32, 64, 8))
		require.Equal(b, nodes, g.NumNodes())
		c.Close()
	}
	require.Equal(b, nodes, baseline.BuildGraph(1))
	sideBySide(b, "×C", build, func() { baseline.BuildGraph(1) })
	b.ReportMetric(testing.AllocsPerRun(10, build)/nodes, "allocs/node")
}

// Computing graphs on one thread, compared with C: the goal is a ratio of at most 1.01.
func BenchmarkCompute(b *testing.B) {
	require.NoError(b, ggml.LoadBackends())
	for _, size := range []struct {
		name                  string
		blocks, size, columns int
	}{
		{"tiny", 250, 4, 1},
		{"small", 250, 64, 8},
		{"large", 25, 512, 64},
	} {
		b.Run(size.name, func(b *testing.B) {
			backend := need.Value(ggml.NewCPUBackend(1))(b)
			defer backend.Close()
			c := ggml.NewContext()
			defer c.Close()
			w := c.NewTensor(ggml.F32, int64(size.size), int64(size.size))
			x := c.NewTensor(ggml.F32, int64(size.size), int64(size.columns))
			g := residualBlocks(c, size.blocks, w, x)
			buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(b)
			defer buffers.Close()
			data := make([]float32, size.size*size.size)
			for i := range data {
				data[i] = float32(i%7) / 7
			}
			require.NoError(b, ggml.Write(w, data))
			require.NoError(b, ggml.Write(x, data[:size.size*size.columns]))
			p := baseline.NewProgram(size.blocks, size.size, size.columns)
			defer p.Close()
			sideBySide(b, "×C", func() { require.NoError(b, backend.Compute(b.Context(), g)) }, func() { p.Compute(1) })
		})
	}
}

// Copying 64 MiB into a tensor and out of it, compared with memcpy: the goal is a time ratio of at
// most 1/0.95.
func BenchmarkData(b *testing.B) {
	const n = 64 << 20 / 4
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, n)
	buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(b)
	defer buffers.Close()
	data, other := make([]float32, n), make([]float32, n)
	for _, bench := range []struct {
		name string
		f    func() error
	}{
		{"Write", func() error { return ggml.Write(x, data) }},
		{"ReadInto", func() error { return ggml.ReadInto(data, x) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			sideBySide(b, "×memcpy", func() { require.NoError(b, bench.f()) }, func() { baseline.Copy(other, data) })
		})
	}
}
