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
	"github.com/goggml/ggml/internal/test/benchmodel"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/stockmodel"
	"github.com/goggml/ggml/internal/test/testutil"
	"github.com/goggml/ggml/kernels"
	"github.com/goggml/ggml/llm/arch"
	"github.com/goggml/ggml/llm/device"
	"github.com/goggml/ggml/llm/lora"
	"github.com/goggml/ggml/llm/model"
)

// benchFolder is the folder for models.
const benchFolder = "../../build/bench"

// Measures LoRA steps of rank 8 by type of the base and compute type, with and without checkpointing.
// The F32 ceiling is measured before each step, because a processor's speed varies.
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

func benchmarkStep(b *testing.B, c arch.Config, base ggml.Type, r scalingRun) {
	r.Rank, r.Threads = 8, runtime.NumCPU()
	for _, products := range []ggml.Type{ggml.F32, ggml.BF16, ggml.F16} {
		for _, checkpointing := range []string{"off", "on"} {
			b.Run(fmt.Sprintf("model=%s/base=%v/products=%v/checkpointing=%s", c.Name, base, products, checkpointing), func(b *testing.B) {
				needsType(b, products)
				r := r
				r.ComputeType, r.Checkpointing = products, checkpointing == "on"
				benchmarkBesideSgemm(b, r.on(b, c, base), c)
			})
		}
	}
}

// Alternates steps of rank 8 in each arithmetic of the processor: in processor time of one thread, and in wall time of a thread
// for each processor, there with the share of the peak of GEMM. ONEDNN_MAX_CPU_ISA limits the instructions of all of them.
func BenchmarkArithmetic(b *testing.B) {
	layers := benchmodel.Large()
	layers.Layers = 4
	for _, of := range []struct {
		c    arch.Config
		base ggml.Type
		run  scalingRun
	}{
		{benchmodel.Small(), ggml.Q8_0, scalingRun{Context: 256, Batch: 2}},
		{benchmodel.Medium(), ggml.Q8_0, scalingRun{Context: 512, Batch: 1}},
		{layers, ggml.Q8_0, scalingRun{Context: 512, Batch: 1}},
		{layers, ggml.Q4_K, scalingRun{Context: 512, Batch: 1}},
		{benchmodel.Large(), ggml.Q8_0, scalingRun{Context: 512, Batch: 1}},
	} {
		for _, threads := range slices.Compact([]int{1, runtime.NumCPU()}) {
			of.run.Rank, of.run.Threads, of.run.ProcessorTime = 8, threads, threads == 1
			b.Run(fmt.Sprintf("model=%s/layers=%d/base=%v/threads=%d", of.c.Name, of.c.Layers, of.base, threads), func(b *testing.B) {
				if testing.Short() && of.c.Layers > 8 {
					b.Skip("takes minutes")
				}
				benchmarkArithmetics(b, of.c, of.base, of.run)
			})
		}
	}
}

func benchmarkArithmetics(b *testing.B, c arch.Config, base ggml.Type, r scalingRun) {
	var types []ggml.Type
	var samplers []func() time.Duration
	for _, typ := range []ggml.Type{ggml.F32, ggml.BF16, ggml.F16, ggml.I16, ggml.I8} {
		if hasType(typ) {
			r.ComputeType = typ
			types, samplers = append(types, typ), append(samplers, startSteps(b, trainSteps, r.on(b, c, base)).sample)
		}
	}
	var turns testutil.Turns
	testutil.Once(b, func() {
		_, budget := testutil.BenchTime(b)
		turns = testutil.InTurn(stepRounds(), budget, samplers...)
	})
	for i, typ := range types {
		b.Run("arithmetic="+typ.String(), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(r.Context*r.Batch)/turns.Median(i).Seconds(), "tok/s")
			b.ReportMetric(turns.Ratio(0, i), "×F32")
			if !r.ProcessorTime {
				peak := peakFLOPS(b, typ, r.Threads)
				rate := c.AdapterFLOPs(r.Context) * float64(r.Context*r.Batch) / turns.Median(i).Seconds()
				b.ReportMetric(rate/1e9, "GFLOP/s")
				b.ReportMetric(peak/1e9, "peak-GFLOP/s")
				b.ReportMetric(100*rate/peak, "peak-%")
			}
		})
	}
}

// peakFLOPS returns the greatest of some measurements, as a machine's speed varies.
func peakFLOPS(b *testing.B, typ ggml.Type, threads int) (peak float64) {
	engine := need.Value(device.NewCPU(threads))(b)
	defer engine.Close()
	for range 5 {
		peak = max(peak, need.Value(engine.PeakFLOPS(b.Context(), typ, 1))(b))
	}
	return peak
}

// hasType reports whether the machine multiplies in a compute type, which is not another one's arithmetic.
func hasType(typ ggml.Type) bool {
	switch typ {
	case ggml.BF16:
		return kernels.HasBF16()
	case ggml.F16:
		return kernels.HasF16Accumulation()
	case ggml.I16:
		return kernels.HasIntegers()
	case ggml.I8:
		return kernels.HasI8()
	}
	return true
}

// needsType skips a benchmark whose compute type the machine cannot multiply.
func needsType(b *testing.B, typ ggml.Type) {
	b.Helper()
	if !hasType(typ) {
		b.Skipf("the processor, or the library, multiplies no %v", typ)
	}
}

// stepRounds returns fewer rounds than for short samples.
func stepRounds() int { return min(3, testutil.Rounds()) }

// benchmarkBesideSgemm alternates steps and large products.
func benchmarkBesideSgemm(b *testing.B, r scalingRun, c arch.Config) {
	require.NoError(b, ggml.LoadBackends())
	ceiling := sgemmProduct(b, r.Context*r.Batch)
	defer ceiling.close()
	_, budget := testutil.BenchTime(b)
	testutil.Once(b, func() {
		run := startSteps(b, trainSteps, r)
		turns := testutil.InTurn(stepRounds(), budget, func() time.Duration { return ceiling.sample(b) }, run.sample)
		run.report(b, turns.Median(1), c)
		b.ReportMetric(turns.Ratio(0, 1)*run.flops(c)/ceiling.flops(), "×sgemm")
	})
}

// Compares steps of ggml's own backward pass with built-in ops, without the optimiser, with ours of
// 512 tokens. ggml's have few tokens, which hardly affects their speed, because they are slow.
func BenchmarkAutograd(b *testing.B) {
	for _, c := range []struct {
		config arch.Config
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

func benchmarkAutograd(b *testing.B, c arch.Config, base ggml.Type, r scalingRun) {
	r = r.on(b, c, base)
	ours := r
	ours.Context, ours.ComputeType = 512, kernels.FastestType()
	_, budget := testutil.BenchTime(b)
	testutil.Once(b, func() {
		stock, ours := startSteps(b, autogradSteps, r), startSteps(b, trainSteps, ours)
		turns := testutil.InTurn(stepRounds(), budget, stock.sample, ours.sample)
		stock.report(b, turns.Median(0), c)
		b.ReportMetric(float64(ours.tokens())/turns.Median(1).Seconds(), "ours-tok/s")
		b.ReportMetric(turns.Ratio(0, 1)*float64(ours.tokens())/float64(stock.tokens()), "×autograd")
	})
}

// autogradSteps is trainSteps with ggml's own backward pass.
var autogradSteps = testutil.NewProcess("autogradSteps", func(r scalingRun, serve func(sample stepTime) error) error {
	m, err := model.Load(r.Model, model.LoadOptions{})
	if err != nil {
		return err
	}
	defer m.Close()
	a, err := lora.New(m, lora.Options{Rank: r.Rank, Alpha: 16, Init: lora.InitKaiming})
	if err != nil {
		return err
	}
	defer a.Close()
	g, err := stockmodel.New(m, a.WithScale(1), r.Context)
	if err != nil {
		return err
	}
	defer g.Close()
	engine, err := device.NewCPU(r.Threads)
	if err != nil {
		return err
	}
	defer engine.Close()
	if err := engine.Allocate(g.Graph); err != nil {
		return err
	}
	row, err := randomTokens(m.Config().Vocab, r.Context, 1).Row(0)
	if err != nil {
		return err
	}
	tokens := row[0].Tokens
	return serve(timed(func() error {
		return g.Compute(context.Background(), engine, tokens[:r.Context], tokens[1:])
	}))
})

// Measures the speed of large products, which bounds training's: OpenBLAS for F32, oneDNN for BF16,
// oneMKL for F16.
func BenchmarkCeiling(b *testing.B) {
	require.NoError(b, ggml.LoadBackends())
	for _, n := range []int{128, 512, 2048} {
		b.Run(fmt.Sprintf("library=OpenBLAS/type=F32/n=%d", n), func(b *testing.B) {
			benchmarkProduct(b, sgemmProduct(b, n))
		})
		b.Run(fmt.Sprintf("library=oneDNN/type=BF16/n=%d", n), func(b *testing.B) {
			benchmarkProduct(b, gemmProduct(b, ggml.BF16, n, func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor {
				return kernels.GEMM(c, ggml.PrecisionF32, kernels.Pair{W: w, X: c.Cast(x, ggml.BF16)})
			}))
		})
		b.Run(fmt.Sprintf("library=oneMKL/type=F16/n=%d", n), func(b *testing.B) {
			benchmarkProduct(b, gemmProduct(b, ggml.F16, n, func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor {
				return kernels.GEMM(c, ggml.PrecisionF16, kernels.Pair{W: w, X: x})
			}))
		})
	}
}

func benchmarkProduct(b *testing.B, p *product) {
	defer p.close()
	var took time.Duration
	testutil.Once(b, func() {
		rounds, budget := testutil.BenchTime(b)
		took = testutil.InTurn(rounds, budget, func() time.Duration { return p.run(b) }).Median(0)
	})
	b.ReportMetric(p.flops()/took.Seconds()/1e9, "GFLOP/s")
}

// A product multiplies a square matrix by n columns, on a backend that it closes.
type product struct {
	n       int
	backend *ggml.Backend
	context *ggml.Context
	buffers *ggml.Buffers
	graph   *ggml.Graph
}

const productSize = 2048 // rows and columns of the matrix

// sgemmProduct returns a product in F32 by OpenBLAS.
func sgemmProduct(b *testing.B, n int) *product {
	b.Helper()
	backend, err := ggml.NewBLASBackend(runtime.NumCPU())
	if err != nil {
		b.Skip(err)
	}
	return newProduct(b, backend, ggml.F32, n, func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor { return c.MulMat(w, x) })
}

// gemmProduct returns a product in a type of the GEMM library.
func gemmProduct(b *testing.B, typ ggml.Type, n int, f func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor) *product {
	b.Helper()
	needsType(b, typ)
	backend := need.Value(ggml.NewCPUBackend(runtime.NumCPU()))(b)
	return newProduct(b, backend, typ, n, f)
}

func newProduct(b *testing.B, backend *ggml.Backend, typ ggml.Type, n int, f func(c *ggml.Context, w, x *ggml.Tensor) *ggml.Tensor) *product {
	b.Helper()
	p := &product{n: n, backend: backend, context: ggml.NewContext()}
	c := p.context
	w, x := c.NewTensor(typ, productSize, productSize), c.NewTensor(ggml.F32, productSize, int64(n))
	p.graph = c.NewGraph(f(c, w, x))
	p.buffers = need.Value(c.Allocate(ggml.CPUBufferType()))(b)
	for _, t := range []*ggml.Tensor{w, x} {
		values := make([]float32, t.NumElements())
		for i := range values {
			values[i] = float32(i%13) - 6
		}
		require.NoError(b, t.SetFloat32s(values))
	}
	require.NoError(b, backend.Compute(b.Context(), p.graph)) // warm-up
	return p
}

func (p *product) run(b *testing.B) time.Duration {
	start := time.Now()
	require.NoError(b, p.backend.Compute(b.Context(), p.graph))
	return time.Since(start)
}

// sample returns the median duration of many runs.
func (p *product) sample(b *testing.B) time.Duration {
	return testutil.InTurn(50, 0, func() time.Duration { return p.run(b) }).Median(0)
}

func (p *product) flops() float64 { return 2 * productSize * productSize * float64(p.n) }

func (p *product) close() {
	p.buffers.Close()
	p.context.Close()
	p.backend.Close()
}
