package ggml_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
)

// Building a graph of 1,000 ops on operands of two contexts.
func BenchmarkBuildGraph(b *testing.B) {
	const nodes = 1000
	weights := ggml.NewContext()
	defer weights.Close()
	w := weights.NewTensor(ggml.F32, 64, 64)
	b.ReportAllocs()
	for b.Loop() {
		c := ggml.NewContext()
		x := c.NewTensor(ggml.F32, 64, 8)
		for range nodes / 4 {
			x = c.Add(c.Silu(c.RMSNorm(c.MulMat(w, x), 1e-5)), x)
		}
		require.Equal(b, nodes, c.NewGraph(x).NumNodes())
		c.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*nodes), "ns/node")
}

// Copying 64 MiB into a tensor and out of it, beside a plain copy.
func BenchmarkData(b *testing.B) {
	const n = 64 << 20 / 4
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, n)
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(b, err)
	defer buffers.Close()
	data, other := make([]float32, n), make([]float32, n)
	for _, bench := range []struct {
		name string
		f    func() error
	}{
		{"copy", func() error { copy(other, data); return nil }},
		{"Write", func() error { return ggml.Write(x, data) }},
		{"ReadInto", func() error { return ggml.ReadInto(data, x) }},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.SetBytes(4 * n)
			for b.Loop() {
				require.NoError(b, bench.f())
			}
		})
	}
}
