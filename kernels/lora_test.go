package kernels_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func loraCases() []opCase {
	return []opCase{{
		Name: "lora_update", Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.GEMM, Runs: 12, InPlace: true,
		Operands: func(d *draw) []operand {
			m, n, r := d.Size(1500), d.Size(20), d.Size(40)
			y, b, h := d.F32(m, n), factor(d, m, r), d.F32(r, n)
			y.Layout, h.Layout = d.Layout(), d.Layout()
			return []operand{y, b, h}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.AddLoRA(c, x[0], loraPairs(x[1], x[2])...) },
		Want: func(x refs) refmath.Tensor {
			return refmath.Add(x[0], lowRank(x[1:], ggml.F32))
		},
	}, {
		Name: "lora_update_owned", Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.GEMM, Runs: 12, InPlace: true,
		Operands: func(d *draw) []operand {
			m, n := d.Size(700), d.Size(40)
			const adapters, rank = 5, 3 // a column has factors of one adapter, and zeros
			h := d.F32(adapters*rank, n)
			for i := range n {
				own := d.Int64N(adapters + 1) // the last has none
				for j := range int64(adapters * rank) {
					if j/rank != own {
						h.Values.Data[i*adapters*rank+j] = 0
					}
				}
			}
			return []operand{d.F32(m, n), factor(d, m, adapters*rank), h}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.AddLoRA(c, x[0], loraPairs(x[1], x[2])...) },
		Want:  func(x refs) refmath.Tensor { return refmath.Add(x[0], lowRank(x[1:], ggml.F32)) },
	}, {
		Name: "lora_update_pairs", Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.GEMM, Runs: 12, InPlace: true,
		Operands: func(d *draw) []operand {
			n, rows := d.Size(20), int64(0)
			args := []operand{{}}
			for range 1 + d.Size(9) { // an op takes four
				m, r := d.Size(700), d.Size(40)
				rows += m
				args = append(args, factor(d, m, r), d.F32(r, n))
			}
			args[0] = d.F32(rows, n)
			args[0].Layout = d.Layout()
			return args
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.AddLoRA(c, x[0], loraPairs(x[1:]...)...) },
		Want: func(x refs) refmath.Tensor {
			return refmath.Add(x[0], lowRank(x[1:], ggml.F32))
		},
	}}
}

// roundedLoRACases have pairs that round H first.
func roundedLoRACases() []opCase {
	var cases []opCase
	for _, typ := range []ggml.Type{ggml.F16, ggml.BF16} {
		roundedPairs := func(x ...*ggml.Tensor) []kernels.LoRAPair {
			pairs := loraPairs(x...)
			for i := range pairs {
				pairs[i].HType = typ
			}
			return pairs
		}
		cases = append(cases, opCase{
			Name: fmt.Sprintf("lora_update_h_%v", typ), Types: optest.FloatTypes, Layouts: optest.ContiguousRows, Bound: optest.GEMM, Runs: 12, InPlace: true,
			Operands: func(d *draw) []operand {
				m, n, r := d.Size(1500), d.Size(20), d.Size(40)
				h := d.F32(r, n)
				h.Layout = d.Layout()
				return []operand{d.F32(m, n), factor(d, m, r), h}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.AddLoRA(c, x[0], roundedPairs(x[1:]...)...) },
			Want: func(x refs) refmath.Tensor {
				return refmath.Add(x[0], lowRank(refs{x[1], optest.Rounded(x[2], typ)}, ggml.F32))
			},
		}, opCase{
			Name: fmt.Sprintf("gemm_lora_h_%v", typ), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 2,
			Operands: func(d *draw) []operand {
				k, m, n, r := d.K(), d.Size(50), d.Size(20), d.Size(9)
				return []operand{d.Normal(k, m), d.F32(k, n), d.F32(m, r), d.F32(r, n)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return kernels.GEMMLoRA(c, exact, pair(x[0], x[1]), roundedPairs(x[2:]...)...)
			},
			Want: func(x refs) refmath.Tensor {
				rounded := refs{x[2], optest.Rounded(x[3], typ)}
				return refmath.Add(refmath.MulMat(x[0], x[1]), lowRank(rounded, ggml.F32))
			},
		})
	}
	return cases
}

// lowRank returns the products of pairs, concatenated, with B rounded to a type.
func lowRank(pairs refs, typ ggml.Type) refmath.Tensor {
	product := func(i int) refmath.Tensor {
		return refmath.OutProd(optest.Rounded(unpacked(pairs[i]), typ), refmath.Transpose(pairs[i+1]))
	}
	products := product(0)
	for i := 2; i < len(pairs); i += 2 {
		products = refmath.Concat(products, product(i), 0)
	}
	return products
}

// factor draws a B of the run's type.
func factor(d *draw, m, r int64) operand {
	b := d.Normal(m, r)
	b.Layout = optest.Contiguous
	return b
}

// unpacked undoes PackLoRA.
func unpacked(b refmath.Tensor) refmath.Tensor {
	const panel = 64
	m, r := b.Ne[0], b.Ne[1]
	matrix := refmath.New(m, r)
	for i := range m {
		first := i / panel * panel
		rows := min(panel, m-first)
		for j := range r {
			matrix.Data[j*m+i] = b.Data[first*r+j*rows+i-first]
		}
	}
	return matrix
}

func TestPackLoRA(t *testing.T) {
	for _, m := range []int64{1, 63, 64, 65, 128, 300} {
		b := refmath.Normal(optest.RNG(3), 1, m, 5)
		packed := refmath.From(kernels.PackLoRA(b.Float32(), int(m)), m, 5)
		require.Equal(t, b.Float32(), unpacked(packed).Float32())
	}
	require.Empty(t, kernels.PackLoRA(nil, 7))
	require.Empty(t, kernels.PackLoRA([]float32{1, 2}, 1<<40)) // returns at once
	require.Empty(t, kernels.PackLoRA([]float32{1, 2}, -1))
	require.Empty(t, kernels.PackLoRA([]float32{1, 2}, 0))
	require.Equal(t, []float32{1, 2}, kernels.PackLoRA([]float32{1, 2, 3}, 2))
}

// gemmLoRACases have few columns and many, up to several tiles, with pairs that begin inside a
// tile.
func gemmLoRACases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		for _, hType := range productTypes() {
			cases = append(cases, opCase{
				Name: fmt.Sprintf("gemm_lora_%v_%v", typ, hType), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 2,
				Operands: func(d *draw) []operand {
					k, m, n, r := d.K(), d.Size(50), d.Size(20), d.Size(9)
					return []operand{d.Normal(k, m), d.F32(k, n).As(typ), d.F32(m, r), d.F32(r, n).As(hType)}
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor {
					return kernels.GEMMLoRA(c, exact, pair(x[0], x[1]), loraPairs(x[2:]...)...)
				},
				Want: func(x refs) refmath.Tensor {
					return refmath.Add(refmath.MulMat(optest.Rounded(x[0], typ), x[1]), lowRank(x[2:], hType))
				},
			})
		}
		for _, columns := range []int64{20, 300} {
			cases = append(cases, opCase{
				Name:  fmt.Sprintf("gemm_lora_pairs_%v_%d", typ, columns),
				Types: []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q4_0}, Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
				Operands: func(d *draw) []operand {
					k, n, rows := d.K(), d.Size(columns), int64(0)
					args := []operand{{}, d.F32(k, n).As(typ)}
					for range d.Size(8) { // an op takes three
						m, r := d.Size(700), d.Size(40)
						rows += m
						args = append(args, d.F32(m, r).As(optest.FloatTypes[d.IntN(len(optest.FloatTypes))]), d.F32(r, n).As(typ))
					}
					args[0] = d.Normal(k, rows)
					return args
				},
				Build: func(c *ctx, x tensors) *ggml.Tensor {
					return kernels.GEMMLoRA(c, exact, pair(x[0], x[1]), loraPairs(x[2:]...)...)
				},
				Want: func(x refs) refmath.Tensor {
					return refmath.Add(refmath.MulMat(optest.Rounded(x[0], typ), x[1]), lowRank(x[2:], typ))
				},
			})
		}
	}
	return cases
}

// A transposed GEMM is transposed back together with the adapter's product: compared with GEMM and
// AddLoRA.
func TestGEMMLoRADeep(t *testing.T) {
	m := optest.Devices(t)[0]
	for _, typ := range productTypes() {
		for _, n := range []int64{30, 301} {
			d := &draw{Rand: optest.RNG(13), Type: ggml.Q4_0, Layouts: optest.ContiguousOnly}
			const k, o, rank = 9 * 256, 5*256 + 6, 16
			args := []operand{d.Normal(k, o), d.F32(k, n).As(typ), d.F32(o-300, rank).As(ggml.BF16), d.F32(rank, n).As(typ), d.F32(300, 3), d.F32(3, n).As(typ)}
			got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
				return kernels.GEMMLoRA(c, exact, pair(x[0], x[1]), loraPairs(x[2:]...)...)
			})
			require.True(t, ok)
			want, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
				f32 := func(x *ggml.Tensor) *ggml.Tensor { return c.Cast(x, ggml.F32) }
				return kernels.AddLoRA(c, kernels.GEMM(c, exact, pair(x[0], x[1])), loraPairs(x[2], f32(x[3]), f32(c.Cast(x[4], typ)), f32(x[5]))...)
			})
			require.True(t, ok)
			require.LessOrEqual(t, refmath.NMSE(got.Values, want.Values), 1e-11, "%v, %d columns", typ, n)
		}
	}
}

func TestLoRAErrors(t *testing.T) {
	for _, k := range []struct {
		err     string
		y, b, h []int64
	}{
		{"Y has 8 rows, the products have 7", []int64{8, 2}, []int64{7, 3}, []int64{3, 2}},
		{"ne0 of H must be ne1 of B: they are 4 and 3", []int64{8, 2}, []int64{8, 3}, []int64{4, 2}},
		{"H must have 2 columns, it has 3", []int64{8, 2}, []int64{8, 3}, []int64{3, 3}},
		{"Y must be a matrix", []int64{8, 2, 2}, []int64{8, 3}, []int64{3, 2}},
		{"B and H must be matrices", []int64{8, 2}, []int64{8, 3, 2}, []int64{3, 2}},
	} {
		c := ggml.NewContext()
		kernels.AddLoRA(c, c.NewTensor(ggml.F32, k.y...), loraPairs(c.NewTensor(ggml.F32, k.b...), c.NewTensor(ggml.F32, k.h...))...)
		require.ErrorContains(t, c.Err(), k.err)
		c.Close()
	}
	c := ggml.NewContext()
	defer c.Close()
	h := c.View(c.NewTensor(ggml.F32, 100), []int64{3, 2}, []int64{4}, 0)
	kernels.AddLoRA(c, c.NewTensor(ggml.F32, 8, 2), loraPairs(c.NewTensor(ggml.F32, 8, 3), h)...)
	require.ErrorContains(t, c.Err(), "rows must not overlap")
	optest.RequireErrors(t, map[string]func(c *ggml.Context){
		"rows are 17179869184 bytes apart, which is too much": func(c *ggml.Context) {
			h := c.View(c.NewTensor(ggml.F32, 1<<33), []int64{2, 2}, []int64{1 << 34}, 0)
			kernels.AddLoRA(c, c.NewTensor(ggml.F32, 8, 2), loraPairs(c.NewTensor(ggml.F32, 8, 2), h)...)
		},
		"B must be contiguous; call Cont": func(c *ggml.Context) {
			b := c.View(c.NewTensor(ggml.F32, 100), []int64{8, 2}, []int64{40}, 0)
			kernels.AddLoRA(c, c.NewTensor(ggml.F32, 8, 3), loraPairs(b, c.NewTensor(ggml.F32, 2, 3))...)
		},
		"an operand shares memory with the one that is changed": func(c *ggml.Context) {
			x := c.NewTensor(ggml.F32, 20)
			kernels.AddLoRA(c, c.View(x, []int64{3, 3}, nil, 0), loraPairs(c.NewTensor(ggml.F32, 3, 4), c.View(x, []int64{4, 3}, nil, 32))...)
		},
		"W has 5 rows, the products have 4": func(c *ggml.Context) {
			kernels.GEMMLoRA(c, exact, pair(c.NewTensor(ggml.Q8_0, 32, 5), c.NewTensor(ggml.F32, 32, 2)), loraPairs(c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 3, 2))...)
		},
		"H has type f16; it must have f32": func(c *ggml.Context) {
			kernels.GEMMLoRA(c, exact, pair(c.NewTensor(ggml.Q8_0, 32, 4), c.NewTensor(ggml.F32, 32, 2)), loraPairs(c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F16, 3, 2))...)
		},
		"HType is q8_0; it must be f32, f16 or bf16": func(c *ggml.Context) {
			kernels.AddLoRA(c, c.NewTensor(ggml.F32, 4, 2), kernels.LoRAPair{B: c.NewTensor(ggml.F32, 4, 3), H: c.NewTensor(ggml.F32, 3, 2), HType: ggml.Q8_0})
		},
		"HType must be the same for all pairs: it is f16 and f32": func(c *ggml.Context) {
			b, h := c.NewTensor(ggml.F32, 2, 3), c.NewTensor(ggml.F32, 3, 2)
			kernels.AddLoRA(c, c.NewTensor(ggml.F32, 4, 2), kernels.LoRAPair{B: b, H: h, HType: ggml.F16}, kernels.LoRAPair{B: b, H: h})
		},
		"W and X must be matrices": func(c *ggml.Context) {
			kernels.GEMMLoRA(c, exact, pair(c.NewTensor(ggml.Q8_0, 32, 4, 2), c.NewTensor(ggml.F32, 32, 2, 2)), loraPairs(c.NewTensor(ggml.F32, 4, 3), c.NewTensor(ggml.F32, 3, 2))...)
		},
		"Y has 10 rows, the products have 15": func(c *ggml.Context) {
			b, h := c.NewTensor(ggml.F32, 3, 3), c.NewTensor(ggml.F32, 3, 2)
			kernels.AddLoRA(c, c.NewTensor(ggml.F32, 10, 2), loraPairs(b, h, b, h, b, h, b, h, b, h)...)
		},
		"Y has 10 rows, the products have 9": func(c *ggml.Context) {
			b, h := c.NewTensor(ggml.F32, 1, 3), c.NewTensor(ggml.F32, 3, 2)
			kernels.AddLoRA(c, c.NewTensor(ggml.F32, 10, 2), loraPairs(b, h, b, h, b, h, b, h, b, h, b, h, b, h, b, h, b, h)...)
		},
		"W has 8 rows, the products have 12": func(c *ggml.Context) {
			b, h := c.NewTensor(ggml.F32, 3, 3), c.NewTensor(ggml.F32, 3, 2)
			kernels.GEMMLoRA(c, exact, pair(c.NewTensor(ggml.F32, 8, 8), c.NewTensor(ggml.F32, 8, 2)), loraPairs(b, h, b, h, b, h, b, h)...)
		},
		"lora_update(leaf f32[10, 2]): there are no LoRA pairs to add": func(c *ggml.Context) { kernels.AddLoRA(c, c.NewTensor(ggml.F32, 10, 2)) },
		"gemm_lora(leaf f32[8, 8], leaf f32[8, 2]): there are no LoRA pairs to add": func(c *ggml.Context) {
			kernels.GEMMLoRA(c, exact, pair(c.NewTensor(ggml.F32, 8, 8), c.NewTensor(ggml.F32, 8, 2)))
		},
	})
}

// An adapter of rank 16 on a matrix of 2048 × 2048: its second half by MulMat and Add, and as one
// op.
func BenchmarkLoRA(b *testing.B) {
	const m, r = 2048, 16
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16} {
		for _, n := range []int64{1, 4, 512} {
			for name, build := range map[string]func(c *ggml.Context, y, wide, tall, h *ggml.Tensor) *ggml.Tensor{
				"AddLoRA": func(c *ggml.Context, y, _, tall, h *ggml.Tensor) *ggml.Tensor {
					return kernels.AddLoRA(c, y, loraPairs(tall, h)...)
				},
				"MulMat": func(c *ggml.Context, y, wide, _, h *ggml.Tensor) *ggml.Tensor { return c.Add(y, c.MulMat(wide, h)) },
			} {
				b.Run(fmt.Sprintf("%v/n=%d/%s", typ, n, name), func(b *testing.B) {
					const copies = 64 // so that they do not all fit into the cache
					c := ggml.NewContext()
					defer c.Close()
					y, h := c.NewTensor(ggml.F32, m, n), c.NewTensor(ggml.F32, r, n)
					out := y
					for range copies {
						wide, tall := c.NewTensor(typ, r, m), c.NewTensor(typ, m, r)
						out = build(c, out, wide, tall, h)
					}
					graph := c.NewGraph(out)
					buffers := need.Value(c.Allocate(ggml.CPUBufferType()))(b)
					defer buffers.Close()
					require.NoError(b, buffers.Clear(0))
					rng := rand.New(rand.NewPCG(1, 1))
					values := make([]float32, r*n)
					for i := range values {
						values[i] = float32(rng.NormFloat64())
					}
					require.NoError(b, ggml.Write(h, values))
					backend := optest.NewCPUBackend(b, 1)
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
