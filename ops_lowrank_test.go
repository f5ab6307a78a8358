package ggml_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestLowRank(t *testing.T) { runOps(t, lowRankCases()) }

func lowRankCases() []opCase {
	return []opCase{inPlace(opCase{
		name: "add_low_rank", types: floatTypes, layouts: denseRows, bound: tiled(), runs: 12,
		args: func(d *draw) []arg {
			m, n, r := d.size(1500), d.size(20), d.size(40)
			y, b, h := d.f32(m, n), d.normal(m, r), d.f32(r, n)
			y.layout, h.layout = d.layout(), d.layout()
			return []arg{y, b, h}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddLowRank(x[0], x[1], x[2]) },
		want: func(x refs) refmath.Tensor {
			return refmath.Add(x[0], refmath.OutProd(x[1], refmath.Transpose(x[2])))
		},
	}), inPlace(opCase{
		name: "add_low_rank_pairs", types: floatTypes, layouts: denseRows, bound: tiled(), runs: 12,
		args: func(d *draw) []arg {
			n, rows := d.size(20), int64(0)
			args := []arg{{}}
			for range 1 + d.size(ggml.MaxThinPairs-1) {
				m, r := d.size(700), d.size(40)
				rows += m
				args = append(args, d.normal(m, r), d.f32(r, n))
			}
			args[0] = d.f32(rows, n)
			args[0].layout = d.layout()
			return args
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddLowRank(x[0], x[1], x[2], x[3:]...) },
		want: func(x refs) refmath.Tensor {
			products := refmath.OutProd(x[1], refmath.Transpose(x[2]))
			for i := 3; i < len(x); i += 2 {
				products = refmath.Concat(products, refmath.OutProd(x[i], refmath.Transpose(x[i+1])), 0)
			}
			return refmath.Add(x[0], products)
		},
	})}
}

func TestLowRankMisuse(t *testing.T) {
	for _, k := range []struct {
		err     string
		y, b, h []int64
	}{
		{"y has 8 rows, the products have 7", []int64{8, 2}, []int64{7, 3}, []int64{3, 2}},
		{"ne0 of h must be ne1 of b: they are 4 and 3", []int64{8, 2}, []int64{8, 3}, []int64{4, 2}},
		{"ne1 must be equal: y has 2, h has 3", []int64{8, 2}, []int64{8, 3}, []int64{3, 3}},
		{"y must be a matrix", []int64{8, 2, 2}, []int64{8, 3}, []int64{3, 2}},
		{"b and h must be matrices", []int64{8, 2}, []int64{8, 3, 2}, []int64{3, 2}},
	} {
		c := ggml.NewContext()
		c.AddLowRank(c.NewTensor(ggml.F32, k.y...), c.NewTensor(ggml.F32, k.b...), c.NewTensor(ggml.F32, k.h...))
		require.ErrorContains(t, c.Err(), k.err)
		c.Close()
	}
	c := ggml.NewContext()
	defer c.Close()
	h := c.View(c.NewTensor(ggml.F32, 100), []int64{3, 2}, []int64{4}, 0)
	c.AddLowRank(c.NewTensor(ggml.F32, 8, 2), c.NewTensor(ggml.F32, 8, 3), h)
	require.ErrorContains(t, c.Err(), "rows must not overlap")
	refused(t, map[string]func(c *ggml.Context){
		"an operand shares memory with the one that is changed": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 20)
			c.AddLowRank(c.View(x, []int64{3, 3}, nil, 0), c.NewTensor(ggml.F32, 3, 4), c.View(x, []int64{4, 3}, nil, 32))
		},
		"the operands must be y and pairs": func(c *ggml.Context) {
			c.AddLowRank(c.NewTensor(ggml.F32, 8, 2), c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 3, 2), c.NewTensor(ggml.F32, 4, 3))
		},
		"there are 5 pairs; at most 4 can be added": func(c *ggml.Context) {
			b, h := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 3, 2)
			c.AddLowRank(c.NewTensor(ggml.F32, 10, 2), b, h, b, h, b, h, b, h, b, h)
		},
	})
}

// An adapter of rank 16 on a matrix of 2048 by 2048: the second half of it as
// MulMat and Add make it, and as one op.
func BenchmarkLowRank(b *testing.B) {
	const m, r = 2048, 16
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16} {
		for _, n := range []int64{1, 4, 512} {
			for name, build := range map[string]func(c *ggml.Context, y, wide, tall, h *ggml.Tensor) *ggml.Tensor{
				"AddLowRank": func(c *ggml.Context, y, _, tall, h *ggml.Tensor) *ggml.Tensor { return c.AddLowRank(y, tall, h) },
				"MulMat":     func(c *ggml.Context, y, wide, _, h *ggml.Tensor) *ggml.Tensor { return c.Add(y, c.MulMat(wide, h)) },
			} {
				b.Run(fmt.Sprintf("%v/n=%d/%s", typ, n, name), func(b *testing.B) {
					const copies = 64 // so that not all is in the cache
					c := ggml.NewContext()
					defer c.Close()
					y, h := c.NewTensor(ggml.F32, m, n), c.NewTensor(ggml.F32, r, n)
					out := y
					for range copies {
						wide, tall := c.NewTensor(typ, r, m), c.NewTensor(typ, m, r)
						out = build(c, out, wide, tall, h)
					}
					graph := c.NewGraph(out)
					buffers, err := c.Allocate(ggml.CPUBufferType())
					require.NoError(b, err)
					defer buffers.Close()
					require.NoError(b, buffers.Clear(0))
					rng := rand.New(rand.NewPCG(1, 1))
					values := make([]float32, r*n)
					for i := range values {
						values[i] = float32(rng.NormFloat64())
					}
					require.NoError(b, ggml.Write(h, values))
					backend := cpuBackend(b, 1)
					for b.Loop() {
						require.NoError(b, backend.Compute(context.Background(), graph))
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*copies), "µs/product")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}
