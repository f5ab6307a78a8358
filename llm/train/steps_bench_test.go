package train_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/benchmodel"
	"github.com/goggml/ggml/internal/stockmodel"
	"github.com/goggml/ggml/internal/testutil"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// benchFolder is where the models are made.
const benchFolder = "../../build/bench"

// LoRA steps of rank 8 by type of the base, of the products with it, and with
// checkpointing and without.
func BenchmarkStep(b *testing.B) {
	small, large := benchmodel.Small(), benchmodel.Large()
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0} {
		benchmarkStep(b, small, typ, scalingRun{Context: 256, Batch: 2})
	}
	if testing.Short() {
		return // the others take minutes
	}
	for _, typ := range []ggml.Type{ggml.Q8_0, ggml.Q4_K} {
		benchmarkStep(b, large, typ, scalingRun{Context: 512, Batch: 1})
	}
}

func benchmarkStep(b *testing.B, c model.Config, base ggml.Type, r scalingRun) {
	r.Rank, r.Threads = 8, runtime.NumCPU()
	for _, products := range []ggml.Type{ggml.F32, ggml.BF16} {
		for _, checkpointing := range []string{"off", "on"} {
			b.Run(fmt.Sprintf("model=%s/base=%v/products=%v/checkpointing=%s", c.Name, base, products, checkpointing), func(b *testing.B) {
				if products == ggml.BF16 && !ggml.TiledBF16() {
					b.Skip("the processor, or the library, multiplies no BF16")
				}
				r := r
				r.Products, r.Checkpointing = products, checkpointing == "on"
				benchmarkSteps(b, c, base, r)
			})
		}
	}
}

// The same by ggml's own backward pass through plain ops, without the
// optimiser. It takes few tokens, of which its speed hardly depends, because it
// is slow.
func BenchmarkAutograd(b *testing.B) {
	for _, c := range []struct {
		config model.Config
		tokens int
		types  []ggml.Type
	}{
		{benchmodel.Small(), 256, []ggml.Type{ggml.F32, ggml.F16, ggml.Q8_0, ggml.Q4_0}},
		{benchmodel.Large(), 128, []ggml.Type{ggml.Q8_0, ggml.Q4_K}},
	} {
		for _, typ := range c.types {
			b.Run(fmt.Sprintf("model=%s/base=%v", c.config.Name, typ), func(b *testing.B) {
				if testing.Short() && c.config.Layers > 8 {
					b.Skip("takes minutes")
				}
				benchmarkAutograd(b, c.config, typ, scalingRun{Context: c.tokens, Batch: 1, Rank: 8, Threads: runtime.NumCPU()})
			})
		}
	}
}

func benchmarkAutograd(b *testing.B, c model.Config, base ggml.Type, r scalingRun) {
	path, err := benchmodel.File(benchFolder, c.Name, c, base)
	require.NoError(b, err)
	r.Model = path
	benchmarkJob(b, r, c, autogradSteps)
}

// autogradSteps is trainSteps with ggml's own backward pass.
var autogradSteps = testutil.NewJob("autogradSteps", func(r scalingRun) (time.Duration, error) {
	m, err := model.Load(r.Model, model.LoadOptions{})
	if err != nil {
		return 0, err
	}
	defer m.Close()
	a, err := lora.New(m, lora.Options{Rank: r.Rank, Alpha: 16, Init: lora.InitKaiming})
	if err != nil {
		return 0, err
	}
	defer a.Close()
	g, err := stockmodel.New(m, a.Deltas(1), r.Context)
	if err != nil {
		return 0, err
	}
	defer g.Close()
	engine, err := model.NewEngine(r.Threads)
	if err != nil {
		return 0, err
	}
	defer engine.Close()
	if err := engine.Allocate(g.Graph); err != nil {
		return 0, err
	}
	tokens := randomTokens(m.Vocab, r.Context, 1).Samples[0].Tokens
	return r.measure(func() error {
		return g.Compute(context.Background(), engine, tokens[:r.Context], tokens[1:])
	})
})

// The speed of large products: what training could reach at most. OpenBLAS is
// the ceiling of F32, oneDNN that of BF16.
func BenchmarkCeiling(b *testing.B) {
	const k = 2048
	require.NoError(b, ggml.LoadBackends())
	for _, n := range []int64{128, 512, 2048} {
		b.Run(fmt.Sprintf("library=OpenBLAS/type=F32/n=%d", n), func(b *testing.B) {
			backend, err := ggml.NewBLASBackend(runtime.NumCPU())
			if err != nil {
				b.Skip(err)
			}
			benchmarkProduct(b, backend, ggml.F32, k, n, func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor { return c.MulMat(w, x) })
		})
		b.Run(fmt.Sprintf("library=oneDNN/type=BF16/n=%d", n), func(b *testing.B) {
			if !ggml.TiledBF16() {
				b.Skip("the processor, or the library, multiplies no BF16")
			}
			backend, err := ggml.NewCPUBackend(runtime.NumCPU())
			require.NoError(b, err)
			benchmarkProduct(b, backend, ggml.BF16, k, n, func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor {
				return c.TiledMulMat(w, c.Cast(x, ggml.BF16))
			})
		})
	}
}

// benchmarkProduct multiplies a [k, k] matrix of the type with n columns.
func benchmarkProduct(b *testing.B, backend *ggml.Backend, typ ggml.Type, k, n int64, f func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor) {
	defer backend.Close()
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(typ, k, k), c.NewTensor(ggml.F32, k, n)
	g := c.NewGraph(f(c, w, x))
	buffers, err := c.Allocate(ggml.CPUBufferType())
	require.NoError(b, err)
	defer buffers.Close()
	for _, t := range []*ggml.Tensor{w, x} {
		values := make([]float32, t.NumElements())
		for i := range values {
			values[i] = float32(i%13) - 6
		}
		require.NoError(b, t.SetFloat32s(values))
	}
	require.NoError(b, backend.Compute(b.Context(), g))
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		require.NoError(b, backend.Compute(b.Context(), g))
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	b.ReportMetric(2*float64(k*k*n)/times[len(times)/2].Seconds()/1e9, "GFLOP/s")
	b.ReportMetric(0, "ns/op")
}
