package kernels_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/fuzz"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func TestMain(m *testing.M) { optest.Main(m) }

// Short names for the tables of ops.
type (
	ctx     = ggml.Context
	tensors = []*ggml.Tensor
	refs    = []refmath.Tensor

	opCase  = optest.Case
	draw    = optest.Draw
	operand = optest.Operand
)

// exact accumulates in F32.
const exact = ggml.PrecisionF32

func pair(w, x *ggml.Tensor) kernels.Pair { return kernels.Pair{W: w, X: x} }

// pairs groups operands in pairs.
func pairs(x ...*ggml.Tensor) []kernels.Pair {
	var list []kernels.Pair
	for p := range slices.Chunk(x, 2) {
		list = append(list, pair(p[0], p[1]))
	}
	return list
}

func loraPairs(x ...*ggml.Tensor) []kernels.LoRAPair {
	var list []kernels.LoRAPair
	for p := range slices.Chunk(x, 2) {
		list = append(list, kernels.LoRAPair{B: p[0], H: p[1]})
	}
	return list
}

func attention(q, k, v *ggml.Tensor, scale float32) kernels.Attention {
	return kernels.Attention{Q: q, K: k, V: v, Scale: scale}
}

func adamW(param, grad, m, v, settings *ggml.Tensor) kernels.AdamWOperands {
	return kernels.AdamWOperands{Param: param, Grad: grad, M: m, V: v, Settings: settings}
}

// opCases lists all cases.
func opCases() []opCase {
	return slices.Concat(gemmCases(), integerCases(), groupedCases(), pairCases(), gemvCases(), loraCases(), roundedLoRACases(), gemmLoRACases(),
		attentionCases(), cachedCases(), deltaCases(), convCases(), scanCases(), softMaxCases(), crossEntropyCases(), divergenceCases(), normCases(), elementwiseCases(), optimizerCases())
}

func TestOps(t *testing.T) { optest.Run(t, opCases()) }

// functions is the prefix of this package's function names.
const functions = "github.com/goggml/ggml/kernels."

func TestEveryOpHasReference(t *testing.T) {
	built := optest.FindBuilders(t, functions, opCases())
	for _, name := range fuzz.Kernels() {
		if fuzz.Computes(name) {
			assert.Contains(t, built.Result, name, "no case compares %s with its reference", name)
		}
	}
}

// Ops refuse all types without a case that compares them with the reference.
func TestNoOtherTypesAccepted(t *testing.T) {
	require.Empty(t, optest.UntestedTypes(t, opCases(), nil))
}

// Tests each operand of an op in each layout: accepted layouts give right results.
func TestAcceptedLayouts(t *testing.T) { optest.RunLayouts(t, opCases()) }

// Blocks of a quantised tensor run along rows, so a transposed one is refused.
func TestTransposedBlocksRefused(t *testing.T) {
	for _, ne := range [][2]int64{{32, 5}, {64, 32}} {
		refuse := func(c *ggml.Context, y *ggml.Tensor) {
			require.Error(t, c.Err())
			require.Regexp(t, "contiguous|multiple of 32", c.Err().Error())
			c.Close()
		}
		transposed := func() (c *ggml.Context, w *ggml.Tensor) {
			c = ggml.NewContext()
			return c, c.Transpose(c.NewTensor(ggml.Q4_0, ne[0], ne[1]))
		}
		c, w := transposed()
		refuse(c, kernels.GEMM(c, exact, pair(w, c.NewTensor(ggml.F32, w.Dim(0)))))
		c, w = transposed()
		refuse(c, kernels.GEMMGradInput(c, exact, pair(w, c.NewTensor(ggml.F32, w.Dim(1)))))
		c, w = transposed()
		refuse(c, kernels.GEMV(c, c.NewTensor(ggml.F32, w.Dim(0)), w))
	}
}

// Profiles, summaries and drawings show the names of the ops.
func TestOpNames(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	x := func(ne ...int64) *ggml.Tensor { return c.NewTensor(ggml.F32, ne...) }
	names := map[string]*ggml.Tensor{
		"gemv":       kernels.GEMV(c, x(8), x(8, 3)),
		"cast_bf16":  kernels.CastBF16(c, x(8)),
		"adamw_step": kernels.AdamWStep(c, adamW(x(4), x(4), x(4), x(4), x(8))),
	}
	if library(t) != "" {
		names["gemm"] = kernels.GEMM(c, exact, pair(x(8, 3), x(8, 2)))
		names["gemm_grad_input"] = kernels.GEMMGradInput(c, exact, pair(x(8, 3), x(3, 2)))
		names["gemm_grad_weight"] = kernels.GEMMGradWeight(c, x(8, 2), x(3, 2))
		names["accumulate_grad_weight"] = kernels.AccumulateGradWeight(c, x(8, 3), x(8, 2), x(3, 2))
		names["gemm_lora"] = kernels.GEMMLoRA(c, exact, pair(x(8, 3), x(8, 2)), loraPairs(x(3, 5), x(5, 2))...)
		names["lora_update"] = kernels.AddLoRA(c, x(3, 2), loraPairs(x(3, 5), x(5, 2))...)
		names["causal_attention"] = kernels.CausalAttention(c, attention(x(8, 2, 3), x(8, 2, 3), x(8, 2, 3), 1))
	}
	require.NoError(t, c.Err())
	var all []*ggml.Tensor
	for want, y := range names {
		require.Equal(t, want, y.Op())
		all = append(all, y)
	}
	flops := map[string]float64{}
	for _, op := range c.NewGraph(all...).Summary().Ops {
		flops[op.Op] = op.FLOPs
	}
	for op, want := range map[string]float64{
		"gemv": 2 * 8 * 3, "gemm": 2 * 8 * 3 * 2, "gemm_grad_input": 2 * 8 * 3 * 2, "gemm_grad_weight": 2 * 8 * 3 * 2,
		"accumulate_grad_weight": 2 * 8 * 3 * 2, "gemm_lora": 2*8*3*2 + 2*3*5*2, "lora_update": 2 * 3 * 5 * 2,
		"causal_attention": 2 * 2 * 8 * 2 * (1 + 2 + 3), "cast_bf16": 8, "adamw_step": 4,
	} {
		if names[op] != nil {
			assert.InDelta(t, want, flops[op], 0, op)
		}
	}
}

// library is the name of the GEMM library.
func library(t testing.TB) string {
	name, err := kernels.GEMMLibrary()
	require.NoError(t, err)
	return name
}

// computeMemory returns the memory that the report shows for computing on the CPU.
func computeMemory(t *testing.T) int64 {
	report, err := ggml.MemoryReport()
	require.NoError(t, err)
	i := slices.IndexFunc(report, func(m ggml.DeviceMemory) bool { return strings.HasPrefix(m.Device.Name(), "CPU") })
	return report[i].Compute
}

// The memory report includes the scratch memory that threads keep.
func TestScratchMemory(t *testing.T) {
	if library(t) == "" {
		t.Skip("there is no GEMM library")
	}
	w := optest.NewWorkbench(t)
	x := w.NewTensor(ggml.Q8_0, 1024, 256)
	y := kernels.GEMM(w.Context, exact, pair(x, w.NewTensor(ggml.F32, 1024, 64)))
	g := w.NewGraph(y)
	require.NoError(t, w.Allocator.Allocate(g))
	w.Compute(g)
	const tile = 32 * 1024 * 4 // bytes of the smallest F32 tile of this depth
	require.GreaterOrEqual(t, computeMemory(t), w.Allocator.Size()+tile)
}

// An error names the line that calls a kernel, even if an op inside it fails.
func TestErrorsNameTheCaller(t *testing.T) {
	for _, build := range []func(c *ggml.Context){
		func(c *ggml.Context) { kernels.CastBF16(c, c.NewTensor(ggml.F16, 4)) },
		func(c *ggml.Context) { kernels.GEMM(c, exact) },
		func(c *ggml.Context) { kernels.GEMV(c, c.NewTensor(ggml.F32, 4), nil) },
		func(c *ggml.Context) { kernels.SumSquares(c, c.Transpose(c.NewTensor(ggml.F32, 4, 3))) },
		func(c *ggml.Context) {
			c.BuildOp("outer", nil, func(b *ggml.OpBuilder) *ggml.Tensor {
				return b.Compose(func() *ggml.Tensor { return c.Add(nil, nil) })
			})
		},
	} {
		c := ggml.NewContext()
		build(c)
		var failed *ggml.OpError
		require.ErrorAs(t, c.Err(), &failed)
		require.Regexp(t, `^ops_test\.go:`, failed.Caller)
		c.Close()
	}
}
