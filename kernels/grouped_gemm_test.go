package kernels_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/optest"
	"github.com/goggml/ggml/internal/refmath"
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
		})
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
	const k, m, experts, used, tokens = 64, 300, 3, 2, 700
	w := optest.NewWorkbench(t)
	matrices, x := w.Leaves.NewTensor(ggml.F32, k, m, experts).SetInput(), w.Leaves.NewTensor(ggml.F32, k, 1, tokens).SetInput()
	scores := w.Leaves.NewTensor(ggml.F32, experts, tokens).SetInput()
	ids := w.ArgSortTopK(scores, used)
	y := kernels.GroupedGEMM(w.Context, matrices, x, ids)
	want := w.MulMatID(matrices, x, ids)
	g := w.NewGraph(y, want)
	require.NoError(t, w.Allocator.Allocate(g))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, tensor := range []*ggml.Tensor{matrices, x, scores} {
		require.NoError(t, ggml.Write(tensor, refmath.Normal(rng, 1, tensor.Shape()...).Float32()))
	}
	w.Compute(g)
	got, err := y.Float32s()
	require.NoError(t, err)
	expected, err := want.Float32s()
	require.NoError(t, err)
	require.InDeltaSlice(t, expected, got, 1e-4)
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
			got, err := y.Float32s()
			require.NoError(t, err)
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
				backend, err := ggml.NewCPUBackend(ggml.DefaultThreads())
				require.NoError(b, err)
				defer backend.Close()
				buffers, err := c.Allocate(backend.BufferType())
				require.NoError(b, err)
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

// Mixtures of the shape of qwen3moe: 64 experts of which each token chooses 8. Each is timed in turn with
// what it is compared with: one GEMM of as many columns, which dequantises a matrix once, and ggml's op.
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
			if kernels.HasBF16() && typ != ggml.F32 {
				graphs["grouped_bf16"] = c.NewGraph(kernels.GroupedGEMM(c, w, kernels.CastBF16(c, x), ids))
				graphs["gemm_bf16"] = c.NewGraph(kernels.GEMM(c, exact, pair(one, kernels.CastBF16(c, columns))))
			}
			backend, err := ggml.NewCPUBackend(ggml.DefaultThreads())
			require.NoError(b, err)
			defer backend.Close()
			buffers, err := c.Allocate(backend.BufferType())
			require.NoError(b, err)
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
