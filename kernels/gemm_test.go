package kernels_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// productTypes lists the types of X.
func productTypes() []ggml.Type {
	if kernels.HasBF16() {
		return []ggml.Type{ggml.F32, ggml.BF16}
	}
	return []ggml.Type{ggml.F32}
}

// gemmCases are products in F32 with any type of the matrix, and in BF16.
func gemmCases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		cases = append(cases, opCase{
			Name: "gemm_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
			Operands: func(d *draw) []operand {
				k, p, q := d.K(), d.Size(2), d.Size(2)
				return []operand{d.Normal(k, d.Size(300), p, q), d.F32(k, d.Size(40), p, q).As(typ)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pair(x[0], x[1])) },
			Want:  func(x refs) refmath.Tensor { return refmath.MulMat(optest.Rounded(x[0], typ), x[1]) },
		}, opCase{
			Name: "gemm_grad_input_" + typ.String(), Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
			Operands: func(d *draw) []operand {
				m, p, q := d.Size(300), d.Size(2), d.Size(2)
				return []operand{d.Normal(d.K(), m, p, q), d.F32(m, d.Size(40), p, q).As(typ)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInput(c, exact, pair(x[0], x[1])) },
			Want: func(x refs) refmath.Tensor {
				return refmath.OutProd(optest.Rounded(x[0], typ), refmath.Transpose(x[1]))
			},
		}, opCase{
			Name: "gemm_grad_weight_" + typ.String(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
			Operands: func(d *draw) []operand {
				n, p, q := d.Size(40), d.Size(2), d.Size(2)
				return []operand{d.F32(d.Size(90), n, p, q).As(typ), d.F32(d.Size(300), n, p, q).As(typ)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradWeight(c, x[0], x[1]) },
			Want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], x[1]) },
		}, opCase{
			Name: "accumulate_grad_weight_" + typ.String(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4, InPlace: true,
			Operands: func(d *draw) []operand {
				k, m, n, p, q := d.Size(90), d.Size(300), d.Size(40), d.Size(2), d.Size(2)
				return []operand{d.F32(k, m, p, q), d.F32(k, n, p, q).As(typ), d.F32(m, n, p, q).As(typ)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.AccumulateGradWeight(c, x[0], x[1], x[2]) },
			Want:  func(x refs) refmath.Tensor { return refmath.Add(x[0], refmath.OutProd(x[1], x[2])) },
		})
	}
	// Few columns, and sums of products.
	return append(cases, opCase{
		Name: "gemm_few", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
		Operands: func(d *draw) []operand {
			k, m, n, p, q := d.K(), d.Size(300), d.Size(7), d.Size(2), d.Size(2)
			return []operand{d.Normal(k, m, p, q), d.F32(k, n, p, q), d.F32(70, m, p, q), d.F32(70, n, p, q)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pairs(x[0], x[1], x[2], x[3])...) },
		Want: func(x refs) refmath.Tensor {
			return refmath.Add(refmath.MulMat(x[0], x[1]), refmath.MulMat(x[2], x[3]))
		},
	})
}

// pairCases are sums of products of different types and depths, and of more pairs than
// one op takes.
func pairCases() []opCase {
	many := func(d *draw, product func(d *draw) []operand) []operand {
		var list []operand
		for range ggml.MaxOperands {
			list = append(list, product(d)...)
		}
		return list
	}
	sum := func(x refs, product func(w, x refmath.Tensor) refmath.Tensor) refmath.Tensor {
		y := product(x[0], x[1])
		for i := 2; i < len(x); i += 2 {
			y = refmath.Add(y, product(x[i], x[i+1]))
		}
		return y
	}
	cases := []opCase{{
		Name: "gemm_many_pairs", Types: []ggml.Type{ggml.F32, ggml.Q8_0}, Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 2,
		Operands: func(d *draw) []operand {
			m, n := d.Size(50), d.Size(9)
			return many(d, func(d *draw) []operand {
				k := d.K()
				return []operand{d.Normal(k, m), d.F32(k, n)}
			})
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pairs(x...)...) },
		Want:  func(x refs) refmath.Tensor { return sum(x, refmath.MulMat) },
	}, {
		Name: "gemm_grad_input_many_pairs", Types: []ggml.Type{ggml.F32, ggml.Q8_0}, Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 2,
		Operands: func(d *draw) []operand {
			k, n := d.K(), d.Size(9)
			return many(d, func(d *draw) []operand {
				m := d.Size(50)
				return []operand{d.Normal(k, m), d.F32(m, n)}
			})
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInput(c, exact, pairs(x...)...) },
		Want: func(x refs) refmath.Tensor {
			return sum(x, func(w, y refmath.Tensor) refmath.Tensor { return refmath.OutProd(w, refmath.Transpose(y)) })
		},
	}}
	for _, typ := range productTypes() {
		cases = append(cases, opCase{
			Name: "gemm_pairs_" + typ.String(), Types: []ggml.Type{ggml.F32, ggml.Q8_0}, Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
			Operands: func(d *draw) []operand {
				k, m, n := d.K(), d.Size(300), d.Size(40)
				return []operand{d.Normal(k, m), d.F32(k, n).As(typ), d.F32(7, m), d.F32(7, n), d.F32(9, m), d.F32(9, n)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pairs(x...)...) },
			Want: func(x refs) refmath.Tensor {
				return refmath.Add(refmath.Add(refmath.MulMat(optest.Rounded(x[0], typ), x[1]), refmath.MulMat(x[2], x[3])), refmath.MulMat(x[4], x[5]))
			},
		}, opCase{
			Name: "gemm_grad_input_pairs_" + typ.String(), Types: []ggml.Type{ggml.F32, ggml.Q4_0}, Layouts: optest.ContiguousOnly, Bound: optest.GEMM, Runs: 4,
			Operands: func(d *draw) []operand {
				k, m, n := d.K(), d.Size(300), d.Size(40)
				return []operand{d.Normal(k, m), d.F32(m, n).As(typ), d.F32(k, 3), d.F32(3, n)}
			},
			Build: func(c *ctx, x tensors) *ggml.Tensor {
				return kernels.GEMMGradInput(c, exact, pairs(x[0], x[1], x[2], x[3])...)
			},
			Want: func(x refs) refmath.Tensor {
				y := refmath.OutProd(optest.Rounded(x[0], typ), refmath.Transpose(x[1]))
				return refmath.Add(y, refmath.OutProd(x[2], refmath.Transpose(x[3])))
			},
		})
	}
	return cases
}

// Matrices of several tiles in each direction.
func TestGEMMLarge(t *testing.T) {
	m := optest.Devices(t)[0]
	for _, typ := range productTypes() {
		for _, weight := range []ggml.Type{ggml.F32, ggml.BF16, ggml.Q6_K} {
			d := &draw{Rand: optest.RNG(9), Type: weight, Layouts: optest.ContiguousOnly}
			args := []operand{d.Normal(1280, 300), d.F32(1280, 33).As(typ), d.F32(300, 33).As(typ)}
			got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pair(x[0], x[1])) })
			require.True(t, ok)
			w := optest.Rounded(args[0].Values, typ)
			require.LessOrEqual(t, refmath.NMSE(got.Values, refmath.MulMat(w, args[1].Values).Data), 1e-11, "%v by %v", weight, typ)
			got, ok = m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInput(c, exact, pair(x[0], x[2])) })
			require.True(t, ok)
			require.LessOrEqual(t, refmath.NMSE(got.Values, refmath.MulMat(refmath.Transpose(w), args[2].Values).Data), 1e-11, "%v by %v", weight, typ)
		}
	}
}

// Many columns and deep sums, for which the weight tile is passed first, compared with the GEMM
// library's own product.
func TestGEMMDeep(t *testing.T) {
	if !kernels.HasBF16() {
		t.Skip("the processor, or the GEMM library, multiplies no BF16")
	}
	m := optest.Devices(t)[0]
	d := &draw{Rand: optest.RNG(12), Type: ggml.Q4_K, Layouts: optest.ContiguousOnly}
	const k, o, n, rank = 9 * 256, 4*256 + 6, 301, 5
	args := []operand{d.Normal(k, o), d.F32(k, n).As(ggml.BF16), d.F32(rank, o), d.F32(rank, n)}
	got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pairs(x[0], x[1], x[2], x[3])...) })
	require.True(t, ok)
	args[0] = args[0].As(ggml.BF16).As(ggml.F32)
	args[1] = args[1].As(ggml.F32)
	want, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.Add(c.MulMat(x[0], x[1]), c.MulMat(x[2], x[3])) })
	require.True(t, ok)
	require.LessOrEqual(t, refmath.NMSE(got.Values, want.Values), 1e-11)
}

// Multiplying by the identity returns the dequantised weights: exact in F32, rounded to the bit in
// BF16, for any type, in whole tiles and at their ends.
func TestGEMMWeights(t *testing.T) {
	m := optest.Devices(t)[0]
	for _, product := range productTypes() {
		for _, typ := range optest.WeightTypes() {
			k := int64(1123)
			if typ.BlockSize() > 1 {
				k = 256 * 5
			}
			d := &draw{Rand: optest.RNG(10), Type: typ, Layouts: optest.ContiguousOnly}
			w, identity := d.Normal(k, 70), d.F32(70, 70).As(product)
			for i := range identity.Values.Data {
				identity.Values.Data[i] = 0
				if i%71 == 0 {
					identity.Values.Data[i] = 1
				}
			}
			got, ok := m.Eval(t, []operand{w, identity}, func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMMGradInput(c, exact, pair(x[0], x[1])) })
			require.True(t, ok)
			different := 0
			for i, want := range optest.Rounded(w.Values, product).Float32() {
				if got.Values[i] != want {
					different++
				}
			}
			require.Zero(t, different, "elements of %v in %v", typ, product)
		}
	}
}

// Results are equal to the bit for any number of threads and in every run.
func TestGEMMThreads(t *testing.T) {
	need.Time(t, "computes large products by many threads")
	for _, typ := range productTypes() {
		for _, weight := range []ggml.Type{ggml.F32, ggml.Q4_0, ggml.Q6_K} {
			first := gemmResults(t, 1, weight, typ)
			for _, threads := range []int{1, 2, 3, 5} {
				same := slices.EqualFunc(first, gemmResults(t, threads, weight, typ), slices.Equal[[]float32])
				require.True(t, same, "%v by %v, %d threads", weight, typ, threads)
			}
		}
	}
}

// gemmRandom has at least as many values as the operands of gemmResults.
var gemmRandom = sync.OnceValue(func() []float32 { return optest.Normal(5, 1<<21) })

func gemmResults(t *testing.T, threads int, weight, typ ggml.Type) [][]float32 {
	t.Helper()
	const k, m, n, r = 1280, 700, 130, 8
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	w, a, b := leaves.NewTensor(weight, k, m), leaves.NewTensor(ggml.F32, k, r), leaves.NewTensor(ggml.F32, r, m)
	x, y := leaves.NewTensor(ggml.F32, k, n), leaves.NewTensor(ggml.F32, m, n)
	few, sum, lora := leaves.NewTensor(ggml.F32, k, 3), leaves.NewTensor(ggml.F32, m, 3), leaves.NewTensor(ggml.BF16, m, r)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	random := gemmRandom()
	for _, l := range []*ggml.Tensor{w, a, b, x, y, few, sum, lora} {
		n := l.NumElements()
		require.NoError(t, l.SetFloat32s(random[:n]))
		random = random[n:]
	}
	h := kernels.GEMM(c, exact, pair(a, x))
	dh := kernels.GEMMGradInput(c, exact, pair(b, y))
	results := []*ggml.Tensor{
		h, dh, kernels.GEMM(c, exact, pairs(w, c.Cast(x, typ), b, h)...), kernels.GEMMGradInput(c, exact, pairs(w, c.Cast(y, typ), a, dh)...),
		kernels.GEMMGradWeight(c, x, dh), kernels.GEMMGradWeight(c, h, y), kernels.GEMMGradWeight(c, c.Cast(x, typ), c.Cast(y, typ)),
		kernels.GEMM(c, exact, pair(w, few)), kernels.GEMM(c, exact, pairs(w, c.Cast(few, typ))...), kernels.AddLoRA(c, c.Cont(sum), loraPairs(lora, kernels.GEMM(c, exact, pair(a, few)))...),
	}
	if kernels.HasF16Accumulation() {
		results = append(results, (kernels.GEMM(c, ggml.PrecisionF16, pairs(w, x, b, h)...)), (kernels.GEMMGradInput(c, ggml.PrecisionF16, pairs(w, y, a, dh)...)))
	}
	backend := need.Value(ggml.NewCPUBackend(threads))(t)
	defer backend.Close()
	allocator := need.Value(ggml.NewGraphAllocator(backend.BufferType()))(t)
	defer allocator.Close()
	g := c.NewGraph(results...)
	require.NoError(t, allocator.Allocate(g))
	require.NoError(t, backend.Compute(context.Background(), g))
	var values [][]float32
	for _, r := range results {
		v := need.Value(ggml.Read[float32](r))(t)
		values = append(values, v)
	}
	return values
}

func TestGEMMErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.Q8_0, 32, 3).SetName("w")
	x := c.NewTensor(ggml.F32, 32, 2).SetName("x")
	y := c.NewTensor(ggml.F32, 3, 2).SetName("y")
	half := c.NewTensor(ggml.F16, 32, 2).SetName("half")
	big, square := c.NewTensor(ggml.F32, 32, 4).SetName("big"), c.NewTensor(ggml.F32, 4, 4)
	many := c.NewTensor(ggml.F32, 1, 1, 1<<16, 1<<16).SetName("many")
	for _, k := range []struct {
		build func(c *ggml.Context)
		want  string
	}{
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pair(w, y)) }, "gemm(w q8_0[32, 3], y f32[3, 2]): ne0 of W must be ne0 of X: they are 32 and 3"},
		{func(c *ggml.Context) { kernels.GEMMGradInput(c, exact, pair(w, x)) }, "gemm_grad_input(w q8_0[32, 3], x f32[32, 2]): ne1 of W must be ne0 of X: they are 3 and 32"},
		{func(c *ggml.Context) { kernels.GEMMGradWeight(c, x, big) }, "gemm_grad_weight(x f32[32, 2], big f32[32, 4]): ne1 must be equal: X has 2, dY has 4"},
		{func(c *ggml.Context) { kernels.GEMMGradWeight(c, x, half) }, "gemm_grad_weight(x f32[32, 2], half f16[32, 2]): dY has type f16; it must have f32 or bf16"},
		{func(c *ggml.Context) { kernels.AccumulateGradWeight(c, big, x, y) }, "accumulate_grad_weight(big f32[32, 4], x f32[32, 2], y f32[3, 2]): the gradient has the shape [32 3 1 1]"},
		{func(c *ggml.Context) { kernels.AccumulateGradWeight(c, square, square, square) }, "an operand shares memory with the one that is changed in place; give the op a copy by Dup"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pair(w, half)) }, "gemm(w q8_0[32, 3], half f16[32, 2]): X has type f16; it must have f32 or bf16"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pairs(c.NewTensor(ggml.I32, 32, 3), x)...) }, "W has type i32, which is neither a float nor a quantised type"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact) }, "gemm: there are no pairs to multiply"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pair(w, x), kernels.Pair{W: w}) }, "gemm(w q8_0[32, 3], x f32[32, 2], w q8_0[32, 3], nil): operand 3 is nil"},
		{func(c *ggml.Context) { kernels.GEMM(c, ggml.PrecisionQ8, pair(w, x)) }, "the precision of accumulation is q8; it must be any, f32, bf16 or f16"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pairs(w, x, big, x)...) }, "gemm(w q8_0[32, 3], x f32[32, 2], big f32[32, 4], x f32[32, 2]): the products of all pairs must have the same shape"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pairs(w, x, w, big)...) }, "gemm(w q8_0[32, 3], x f32[32, 2], w q8_0[32, 3], big f32[32, 4]): the products of all pairs must have the same shape"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pairs(x, x, x, x, x, x, x, x, w, x)...) }, "gemm(w q8_0[32, 3], x f32[32, 2]): the products of all pairs must have the same shape"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pairs(c.Transpose(x), y)...) }, "gemm(x (transposed) f32[2, 32], y f32[3, 2]): an operand must be contiguous; call Cont"},
		{func(c *ggml.Context) { kernels.GEMM(c, exact, pair(many, many)) }, "gemm(many f32[1, 1, 65536, 65536], many f32[1, 1, 65536, 65536]): the operands are too large for one op; divide them"},
		{func(c *ggml.Context) { kernels.GEMMGradInput(c, exact, pair(w, nil)) }, "gemm_grad_input(w q8_0[32, 3], nil): operand 1 is nil"},
	} {
		ops := ggml.NewContext()
		k.build(ops)
		require.ErrorContains(t, ops.Err(), k.want)
		ops.Close()
	}
}

// For each value of an 8-bit scale, blocks are dequantised to the bit as by ggml.
func TestScalesOfEightBits(t *testing.T) {
	for typ, scales := range map[ggml.Type]int{ggml.MXFP4: 1, ggml.NVFP4: 4} {
		const last = 250 // first scale for which values of MXFP4 overflow F32
		n := int(typ.BlockSize())
		data := make([]byte, last*int(typ.BlockBytes()))
		rng := optest.RNG(1)
		for i := range data {
			data[i] = byte(rng.IntN(256))
		}
		for i := range last {
			for j := range scales {
				data[i*int(typ.BlockBytes())+j] = byte(i + j)
			}
		}
		want := make([]float32, last*n)
		require.NoError(t, ggml.Dequantize(want, typ, data))

		w := optest.NewWorkbench(t)
		blocks, identity := w.Leaves.NewTensor(typ, int64(n), last).SetInput(), w.Leaves.NewTensor(ggml.F32, int64(n), int64(n)).SetInput()
		y := w.Cont(w.Transpose(kernels.GEMM(w.Context, exact, pair(blocks, identity))))
		g := w.NewGraph(y)
		require.NoError(t, w.Allocator.Allocate(g))
		require.NoError(t, optest.Err(blocks.WriteAt(data, 0)))
		one := make([]float32, n*n)
		for i := range n {
			one[i*n+i] = 1
		}
		require.NoError(t, ggml.Write(identity, one))
		w.Compute(g)
		require.Equal(t, want, optest.Values(t, y), typ)
	}
}
