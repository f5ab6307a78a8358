package kernels_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// groupedCases choose experts at random: some often, some never.
func groupedCases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		// operands are W [k, m], and what has as many elements as a dimension of W.
		operands := func(d *draw, k, m, n int64, shared bool) []operand {
			experts, used, tokens := d.Size(6), d.Size(3), d.Size(30)
			columns := used
			if shared {
				columns = 1
			}
			return []operand{d.Normal(k, m, experts), d.F32(n, columns, tokens).As(typ), d.Indices(experts, used, tokens)}
		}
		forward := func(name string, shared bool) opCase {
			return opCase{
				Name: name + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
				Operands: func(d *draw) []operand {
					k := d.K()
					return operands(d, k, d.Size(300), k, shared)
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GroupedGEMM(c, x[0], x[1], x[2]) },
				Want:  func(x refs) refmath.Tensor { return refmath.MulMatID(optest.Rounded(x[0], typ), x[1], x[2]) },
			}
		}
		cases = append(cases, forward("grouped_gemm_", false), forward("grouped_gemm_shared_", true), opCase{
			Name: "grouped_gemm_grad_input_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
			Operands: func(d *draw) []operand {
				m := d.Size(300)
				return operands(d, d.K(), m, m, false)
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GroupedGEMMGradInput(c, x[0], x[1], x[2]) },
			Want: func(x refs) refmath.Tensor {
				return refmath.MulMatID(refmath.Transpose(optest.Rounded(x[0], typ)), x[1], x[2])
			},
		}, opCase{
			Name: "accumulate_grouped_grad_weight_" + typ.String(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 8, InPlace: true,
			Operands: func(d *draw) []operand {
				k, m, experts, used, tokens := d.Size(300), d.Size(90), d.Size(6), d.Size(3), d.Size(30)
				columns := used
				if d.IntN(2) == 0 {
					columns = 1
				}
				return []operand{d.F32(k, m, experts), d.F32(k, columns, tokens).As(typ), d.F32(m, used, tokens).As(typ), d.Indices(experts, used, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return kernels.AccumulateGroupedGradWeight(c, x[0], x[1], x[2], x[3])
			},
			Want: func(x refs) refmath.Tensor {
				return refmath.Add(x[0], refmath.OutProdID(x[1], x[2], x[3], x[0].Ne[2]))
			},
		})
	}
	for _, g := range integerGEMMs() {
		for _, typ := range productTypes() {
			bound := g.bound
			if typ == ggml.BF16 {
				bound = optest.GEMMI8 // experts with few columns are rounded to BF16
			}
			cases = append(cases, opCase{
				Name: "grouped_" + g.name + "_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: bound, Runs: 4,
				Operands: func(d *draw) []operand {
					k, m, experts, used, tokens := d.K(), d.Size(300), d.Size(4), d.Size(3), d.Size(200)
					columns, depth := used, k
					if g.back {
						depth = m
					} else if d.IntN(2) == 0 {
						columns = 1
					}
					return []operand{d.Normal(k, m, experts), d.F32(depth, columns, tokens).As(typ), d.Indices(experts, used, tokens)}
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor {
					return map[string]func(c *ctx, w, x, ids *ggml.Tensor) *ggml.Tensor{
						"gemm_int": kernels.GroupedGEMMInt, "gemm_grad_input_int": kernels.GroupedGEMMGradInputInt, "gemm_grad_input_i8": kernels.GroupedGEMMGradInputI8,
					}[g.name](c, x[0], x[1], x[2])
				},
				Want: func(x refs) refmath.Tensor {
					w := x[0]
					if g.back {
						w = refmath.Transpose(w)
					}
					return refmath.MulMatID(w, x[1], x[2])
				},
			})
		}
	}
	for name, shared := range map[string]bool{"grouped_gemv": false, "grouped_gemv_shared": true} {
		cases = append(cases, opCase{
			Name: name, Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 4,
			Operands: func(d *draw) []operand {
				experts, used, tokens := d.Size(6), d.Size(3), d.Size(9)
				columns := used
				if shared {
					columns = 1
				}
				k := d.K()
				return []operand{d.Normal(k, d.Size(300), experts), d.F32(k, columns, tokens), d.Indices(experts, used, tokens)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GroupedGEMV(c, x[0], x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.MulMatID(x[0], x[1], x[2]) },
		})
	}
	return cases
}

// More columns of an expert than a chunk has, and ids that are the first of many, as those that
// a sort gives.
func TestGroupedGEMMOfManyColumns(t *testing.T) {
	const k, m, experts, used, tokens = 300, 520, 3, 2, 700
	w := optest.NewWorkbench(t)
	input := func(ne ...int64) *ggml.Tensor { return w.Leaves.NewTensor(ggml.F32, ne...).SetInput() }
	matrices, x, dy, dw, scores := input(k, m, experts), input(k, 1, tokens), input(m, used, tokens), input(k, m, experts), input(experts, tokens)
	ids := w.ArgSortTopK(scores, used)
	y, want := kernels.GroupedGEMM(w.Context, matrices, x, ids), w.MulMatID(matrices, x, ids)
	grad := kernels.AccumulateGroupedGradWeight(w.Context, dw, x, dy, ids)
	g := w.NewGraph(y, want, w.Cont(ids).SetOutput(), grad)
	require.NoError(t, w.Allocator.Allocate(g))
	rng := rand.New(rand.NewPCG(1, 2))
	values := map[*ggml.Tensor]refmath.Tensor{}
	for _, tensor := range []*ggml.Tensor{matrices, x, dy, dw, scores} {
		values[tensor] = refmath.Normal(rng, 1, tensor.Shape()...)
		require.NoError(t, ggml.Write(tensor, values[tensor].Float32()))
	}
	w.Compute(g)
	require.InDeltaSlice(t, optest.Values(t, want), optest.Values(t, y), 1e-4)
	chosen := refmath.ArgSort(values[scores], true)
	first := refmath.New(used, tokens)
	for i := range tokens {
		copy(first.Data[i*used:], chosen.Data[i*experts:][:used])
	}
	sum := refmath.Add(values[dw], refmath.OutProdID(values[x], values[dy], first, experts))
	require.LessOrEqual(t, refmath.RelativeError(optest.Values(t, grad), sum.Data), 1e-6)
}

// An index of no expert adds nothing to gradients.
func TestGroupedGradWeightOfNoExpert(t *testing.T) {
	w := optest.NewWorkbench(t)
	input := func(ne ...int64) *ggml.Tensor { return w.Leaves.NewTensor(ggml.F32, ne...).SetInput() }
	dw, x, dy, ids := input(4, 3, 2), input(4, 1, 3), input(3, 1, 3), w.Leaves.NewTensor(ggml.I32, 1, 3).SetInput()
	grad := kernels.AccumulateGroupedGradWeight(w.Context, dw, x, dy, ids)
	g := w.NewGraph(grad)
	require.NoError(t, w.Allocator.Allocate(g))
	for _, tensor := range []*ggml.Tensor{dw, x, dy} {
		require.NoError(t, tensor.Fill(1))
	}
	require.NoError(t, ggml.Write(ids, []int32{1, -1, 2}))
	w.Compute(g)
	require.Equal(t, append(slices.Repeat([]float32{1}, 12), slices.Repeat([]float32{2}, 12)...), optest.Values(t, grad))
}

// An index of no expert leaves the others as they are.
func TestGroupedOfNoExpert(t *testing.T) {
	for name, product := range map[string]func(c *ggml.Context, w, x, ids *ggml.Tensor) *ggml.Tensor{"gemm": kernels.GroupedGEMM, "gemv": kernels.GroupedGEMV} {
		t.Run(name, func(t *testing.T) {
			w := optest.NewWorkbench(t)
			matrices, x, ids := w.Leaves.NewTensor(ggml.F32, 4, 3, 2).SetInput(), w.Leaves.NewTensor(ggml.F32, 4, 1, 3).SetInput(), w.Leaves.NewTensor(ggml.I32, 1, 3).SetInput()
			y := product(w.Context, matrices, x, ids)
			g := w.NewGraph(y)
			require.NoError(t, w.Allocator.Allocate(g))
			require.NoError(t, matrices.Fill(1))
			require.NoError(t, x.Fill(1))
			require.NoError(t, ggml.Write(ids, []int32{1, -1, 0}))
			w.Compute(g)
			got := need.Value(y.Float32s())(t)
			require.Equal(t, []float32{4, 4, 4}, got[:3])
			require.Equal(t, []float32{4, 4, 4}, got[6:])
			for _, x := range got[3:6] {
				require.True(t, math.IsNaN(float64(x)))
			}
		})
	}
}

// The same in decoding, beside ggml's op: a token, and 4 at once.
func BenchmarkGroupedGEMV(b *testing.B) {
	const embd, width, experts, used = 2048, 768, 64, 8
	for _, typ := range []ggml.Type{ggml.F16, ggml.Q8_0, ggml.Q4_K} {
		for _, tokens := range []int64{1, 4} {
			b.Run(fmt.Sprintf("%v/tokens=%d", typ, tokens), func(b *testing.B) {
				c := ggml.NewContext()
				defer c.Close()
				x, scores := c.NewTensor(ggml.F32, embd, 1, tokens).SetInput(), c.NewTensor(ggml.F32, experts, tokens).SetInput()
				ids := c.ArgSortTopK(scores, used)
				const layers = 4 // more than a cache holds
				var ours, theirs []*ggml.Tensor
				for range layers {
					w := c.NewTensor(typ, embd, width, experts).SetInput()
					ours, theirs = append(ours, kernels.GroupedGEMV(c, w, x, ids)), append(theirs, c.MulMatID(w, x, ids))
				}
				graphs := []*ggml.Graph{c.NewGraph(ours...), c.NewGraph(theirs...)}
				backend := need.Value(ggml.NewCPUBackend(ggml.DefaultThreads()))(b)
				defer backend.Close()
				buffers := need.Value(c.Allocate(backend.BufferType()))(b)
				defer buffers.Close()
				var took [2]time.Duration
				for b.Loop() {
					require.NoError(b, ggml.Write(scores, optest.Normal(1, experts*int(tokens))))
					for i, g := range graphs {
						began := time.Now()
						require.NoError(b, backend.Compute(context.Background(), g))
						took[i] += time.Since(began)
					}
				}
				b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "×mul_mat_id")
				b.ReportMetric(float64(layers*min(int64(experts), used*tokens)*width*typ.RowSize(embd))*float64(b.N)/took[0].Seconds()/1e9, "GB/s")
			})
		}
	}
}

// Mixtures of the shape of qwen3moe: each token chooses 8 of 64 experts. Each is timed in turn with two
// others: one GEMM of as many columns, which dequantises a matrix once, and ggml's op.
func BenchmarkGroupedGEMM(b *testing.B) {
	const embd, width, experts, used, tokens = 2048, 768, 64, 8, 512
	for _, typ := range []ggml.Type{ggml.F32, ggml.Q8_0, ggml.Q4_K} {
		b.Run(typ.String(), func(b *testing.B) {
			c := ggml.NewContext()
			defer c.Close()
			w, one := c.NewTensor(typ, embd, width, experts).SetInput(), c.NewTensor(typ, embd, width).SetInput()
			x, columns := c.NewTensor(ggml.F32, embd, 1, tokens).SetInput(), c.NewTensor(ggml.F32, embd, used*tokens).SetInput()
			dy, scores := c.NewTensor(ggml.F32, width, used, tokens).SetInput(), c.NewTensor(ggml.F32, experts, tokens).SetInput()
			ids := c.ArgSortTopK(scores, used)
			graphs := map[string]*ggml.Graph{
				"grouped":    c.NewGraph(kernels.GroupedGEMM(c, w, x, ids)),
				"grad_input": c.NewGraph(kernels.GroupedGEMMGradInput(c, w, dy, ids)),
				"gemm":       c.NewGraph(kernels.GEMM(c, exact, pair(one, columns))),
				"mul_mat_id": c.NewGraph(c.MulMatID(w, x, ids)),
			}
			if typ == ggml.F32 { // those that are trained
				dw := c.NewTensor(ggml.F32, embd, width, experts).SetInput()
				graphs["grad_weight"] = c.NewGraph(kernels.AccumulateGroupedGradWeight(c, dw, x, dy, ids))
				graphs["grad_weight_spread"] = c.NewGraph(spreadGradWeight(c, dw, x, dy, ids))
			}
			if kernels.HasBF16() && typ != ggml.F32 {
				graphs["grouped_bf16"] = c.NewGraph(kernels.GroupedGEMM(c, w, kernels.CastBF16(c, x), ids))
				graphs["gemm_bf16"] = c.NewGraph(kernels.GEMM(c, exact, pair(one, kernels.CastBF16(c, columns))))
			}
			backend := need.Value(ggml.NewCPUBackend(ggml.DefaultThreads()))(b)
			defer backend.Close()
			buffers := need.Value(c.Allocate(backend.BufferType()))(b)
			defer buffers.Close()
			require.NoError(b, ggml.Write(scores, optest.Normal(1, experts*tokens)))
			took := map[string]time.Duration{}
			for b.Loop() {
				for name, g := range graphs {
					began := time.Now()
					require.NoError(b, backend.Compute(context.Background(), g))
					took[name] += time.Since(began)
				}
			}
			for name, d := range took {
				b.ReportMetric(2*embd*width*used*tokens*float64(b.N)/d.Seconds()/1e9, name+"_GFLOP/s")
			}
		})
	}
}

// spreadGradWeight is the gradient by one GEMM, with the columns of dY spread over the rows of all experts.
func spreadGradWeight(c *ctx, dw, x, dy, ids *ggml.Tensor) *ggml.Tensor {
	m, used, experts := dy.Dim(0), ids.Dim(0), dw.Dim(2)
	const some = 64 // tokens at a time
	sum := c.Reshape(dw, dw.Dim(0), m*experts)
	x = c.Repeat(x, x.Dim(0), used, x.Dim(2))
	for from := int64(0); from < x.Dim(2); from += some {
		part := func(x *ggml.Tensor) *ggml.Tensor {
			return c.Reshape(c.View(x, []int64{x.Dim(0), used, some}, []int64{x.Stride(1), x.Stride(2)}, from*x.Stride(2)), x.Dim(0), 1, used*some)
		}
		chosen := c.Reshape(c.Cont(c.View(ids, []int64{used, some}, []int64{ids.Stride(1)}, from*ids.Stride(1))), 1, used*some)
		zeros := c.Fill(c.Repeat(part(dy), m, experts, used*some), 0)
		spread := c.Reshape(c.SetRows(zeros, part(dy), chosen), m*experts, used*some)
		sum = kernels.AccumulateGradWeight(c, sum, c.Reshape(part(x), x.Dim(0), used*some), spread)
	}
	return sum
}
