package kernels_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
)

// Products of a few columns, as when several sequences decode at once: GEMV, GEMM, and ggml's op with row-major and with
// repacked weights, of which more than a cache holds. One thread multiplies; its processor time is compared.
func BenchmarkGEMV(b *testing.B) {
	for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_0, ggml.Q4_K, ggml.Q5_K, ggml.Q6_K} {
		for _, k := range []int64{768, 2048} {
			for _, n := range []int64{1, 2, 3, 4, 8, 16, 32, 64} {
				b.Run(fmt.Sprintf("%v/k=%d/n=%d", typ, k, n), func(b *testing.B) { benchmarkGEMV(b, typ, k, n) })
			}
		}
	}
}

func benchmarkGEMV(b *testing.B, typ ggml.Type, k, n int64) {
	const matrices = 24
	m := 2048 * 2048 / k
	backend := optest.NewCPUBackend(b, 1)
	c := ggml.NewContext()
	defer c.Close()
	x := c.NewTensor(ggml.F32, k, n).SetInput()
	names, graphs := []string{}, []*ggml.Graph{}
	add := func(name string, multiply func(w *ggml.Tensor) *ggml.Tensor, ws []*ggml.Tensor) {
		names = append(names, name)
		var list []*ggml.Tensor
		for _, w := range ws {
			list = append(list, multiply(w))
		}
		graphs = append(graphs, c.NewGraph(list...))
	}
	ws := make([]*ggml.Tensor, matrices)
	for i := range ws {
		ws[i] = c.NewTensor(typ, k, m).SetInput()
	}
	add("gemv", func(w *ggml.Tensor) *ggml.Tensor { return kernels.GEMV(c, x, w) }, ws)
	add("mul_mat", func(w *ggml.Tensor) *ggml.Tensor { return c.MulMat(w, x) }, ws)
	add("gemm_f32", func(w *ggml.Tensor) *ggml.Tensor { return kernels.GEMM(c, exact, pair(w, x)) }, ws)
	if kernels.HasIntegers() {
		add("gemm_int", func(w *ggml.Tensor) *ggml.Tensor { return kernels.GEMMInt(c, nil, pair(w, x)) }, ws)
	}
	if kernels.HasBF16() {
		add("gemm_bf16", func(w *ggml.Tensor) *ggml.Tensor { return kernels.GEMM(c, exact, pair(w, kernels.CastBF16(c, x))) }, ws)
	}
	cpu := need.Value(ggml.DeviceByType(ggml.CPU))(b)
	data := make([]byte, m*typ.RowSize(k))
	require.NoError(b, ggml.Quantize(data, typ, optest.Normal(1, int(k*m)), ggml.QuantizeOptions{RowLen: int(k)}))
	for _, bt := range cpu.ExtraBufferTypes() {
		if !bt.SupportsMulMat(ws[0]) {
			continue
		}
		repacked := ggml.NewContext()
		defer repacked.Close()
		list := make([]*ggml.Tensor, matrices)
		for i := range list {
			list[i] = repacked.NewTensor(typ, k, m).SetInput()
		}
		buffers := need.Value(repacked.Allocate(bt))(b)
		defer buffers.Close()
		for _, w := range list {
			require.NoError(b, optest.Err(w.WriteAt(data, 0)))
		}
		add("repacked", func(w *ggml.Tensor) *ggml.Tensor { return c.MulMat(w, x) }, list)
		break
	}
	require.NoError(b, c.Err())
	buffers := need.Value(c.Allocate(backend.BufferType()))(b)
	defer buffers.Close()
	for _, w := range ws {
		require.NoError(b, optest.Err(w.WriteAt(data, 0)))
	}
	require.NoError(b, ggml.Write(x, optest.Normal(2, int(k*n))))
	samplers := make([]func() time.Duration, len(graphs))
	for i, g := range graphs {
		samplers[i] = func() time.Duration {
			began := testutil.ProcessorTime()
			require.NoError(b, backend.Compute(context.Background(), g))
			return testutil.ProcessorTime() - began
		}
	}
	rounds, budget := testutil.BenchTime(b)
	turns := testutil.InTurn(rounds, budget, samplers...)
	for i, name := range names {
		b.ReportMetric(float64(slices.Min(turns[i]).Nanoseconds())/matrices/1000, name+"-µs")
	}
	b.ReportMetric(0, "ns/op")
}
