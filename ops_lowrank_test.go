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

func TestLowRank(t *testing.T) { runOps(t, append(lowRankCases(), tiledLowRankCases()...)) }

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
			return refmath.Add(x[0], lowRank(x[1:], ggml.F32))
		},
	})}
}

// lowRank is the products of pairs, one after the other, with b rounded to a type.
func lowRank(pairs refs, typ ggml.Type) refmath.Tensor {
	product := func(i int) refmath.Tensor {
		return refmath.OutProd(rounded(pairs[i], typ), refmath.Transpose(pairs[i+1]))
	}
	products := product(0)
	for i := 2; i < len(pairs); i += 2 {
		products = refmath.Concat(products, product(i), 0)
	}
	return products
}

// tiledLowRankCases are of few columns and many, as wide as several tiles, with pairs
// that begin within one.
func tiledLowRankCases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		for _, columns := range []int64{20, 300} {
			cases = append(cases, opCase{
				name:  fmt.Sprintf("tiled_low_rank_%v_%d", typ, columns),
				types: []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q4_0}, layouts: denseOnly, bound: tiled(), runs: 4,
				args: func(d *draw) []arg {
					k, n, rows := d.depth(), d.size(columns), int64(0)
					args := []arg{{}, d.f32(k, n).as(typ)}
					for range d.size(ggml.MaxTiledThinPairs) {
						m, r := d.size(700), d.size(40)
						rows += m
						args = append(args, d.f32(m, r).as(floatTypes[d.IntN(len(floatTypes))]), d.f32(r, n).as(typ))
					}
					args[0] = d.normal(k, rows)
					return args
				},
				build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledLowRank(x[0], x[1], x[2], x[3], x[4:]...) },
				want: func(x refs) refmath.Tensor {
					return refmath.Add(refmath.MulMat(rounded(x[0], typ), x[1]), lowRank(x[2:], typ))
				},
			})
		}
	}
	return cases
}

// The sum of tiles that come first is turned in the end, and the adapter's with it:
// beside the product and AddLowRank of the same values.
func TestTiledLowRankDeep(t *testing.T) {
	m := machines(t)[0]
	for _, typ := range productTypes() {
		for _, n := range []int64{30, 301} {
			d := &draw{Rand: rng(13), typ: ggml.Q4_0, layouts: denseOnly}
			const k, o, rank = 9 * 256, 5*256 + 6, 16
			args := []arg{d.normal(k, o), d.f32(k, n).as(typ), d.f32(o-300, rank).as(ggml.BF16), d.f32(rank, n).as(typ), d.f32(300, 3), d.f32(3, n).as(typ)}
			got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledLowRank(x[0], x[1], x[2], x[3], x[4:]...) })
			require.True(t, ok)
			want, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
				f32 := func(x *ggml.Tensor) *ggml.Tensor { return c.Cast(x, ggml.F32) }
				return c.AddLowRank(c.TiledMulMat(x[0], x[1]), x[2], f32(x[3]), f32(c.Cast(x[4], typ)), f32(x[5]))
			})
			require.True(t, ok)
			require.LessOrEqual(t, refmath.NMSE(got.values, want.values), 1e-11, "%v, %d columns", typ, n)
		}
	}
}

func TestLowRankMisuse(t *testing.T) {
	for _, k := range []struct {
		err     string
		y, b, h []int64
	}{
		{"y has 8 rows, the products have 7", []int64{8, 2}, []int64{7, 3}, []int64{3, 2}},
		{"ne0 of h must be ne1 of b: they are 4 and 3", []int64{8, 2}, []int64{8, 3}, []int64{4, 2}},
		{"h must have 2 columns, it has 3", []int64{8, 2}, []int64{8, 3}, []int64{3, 3}},
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
		"rows are 17179869184 bytes apart, which is too much": func(c *ggml.Context) {
			b := c.View(c.NewTensor(ggml.F32, 1<<33), []int64{8, 2}, []int64{1 << 34}, 0)
			c.AddLowRank(c.NewTensor(ggml.F32, 8, 3), b, c.NewTensor(ggml.F32, 2, 3))
		},
		"an operand shares memory with the one that is changed": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 20)
			c.AddLowRank(c.View(x, []int64{3, 3}, nil, 0), c.NewTensor(ggml.F32, 3, 4), c.View(x, []int64{4, 3}, nil, 32))
		},
		"the operands must be pairs": func(c *ggml.Context) {
			c.TiledLowRank(c.NewTensor(ggml.F32, 8, 4), c.NewTensor(ggml.F32, 8, 2), c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 3, 2), c.NewTensor(ggml.F32, 4, 3))
		},
		"w has 5 rows, the products have 4": func(c *ggml.Context) {
			c.TiledLowRank(c.NewTensor(ggml.Q8_0, 32, 5), c.NewTensor(ggml.F32, 32, 2), c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 3, 2))
		},
		"h has type f16; it must have f32": func(c *ggml.Context) {
			c.TiledLowRank(c.NewTensor(ggml.Q8_0, 32, 4), c.NewTensor(ggml.F32, 32, 2), c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F16, 3, 2))
		},
		"w and x must be matrices": func(c *ggml.Context) {
			c.TiledLowRank(c.NewTensor(ggml.Q8_0, 32, 4, 2), c.NewTensor(ggml.F32, 32, 2, 2), c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 3, 2))
		},
		"there are 4 thin pairs; at most 3 can be added": func(c *ggml.Context) {
			b, h := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 3, 2)
			c.TiledLowRank(c.NewTensor(ggml.F32, 8, 8), c.NewTensor(ggml.F32, 8, 2), b, h, b, h, b, h, b, h)
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
