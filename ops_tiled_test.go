package ggml_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestTiledOps(t *testing.T) { runOps(t, append(tiledCases(), pairCases()...)) }

// productTypes lists what a matrix can be multiplied with.
func productTypes() []ggml.Type {
	if ggml.TiledBF16() {
		return []ggml.Type{ggml.F32, ggml.BF16}
	}
	return []ggml.Type{ggml.F32}
}

// tiled is the bound of products whose operands are rounded by nothing but what
// the references round too.
func tiled() *bound {
	whole := *products
	whole.half, whole.brain, whole.quantized = whole.products, whole.products, whole.products
	return &whole
}

// tiledCases are products in F32, whatever the type of the matrix, and in BF16.
func tiledCases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		cases = append(cases, opCase{
			name: "tiled_mul_mat_" + typ.String(), types: weightTypes(), layouts: denseOnly, bound: tiled(), runs: 4,
			args: func(d *draw) []arg {
				k, p, q := d.depth(), d.size(2), d.size(2)
				return []arg{d.normal(k, d.size(300), p, q), d.f32(k, d.size(40), p, q).as(typ)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.MulMat(rounded(x[0], typ), x[1]) },
		}, opCase{
			name: "tiled_mul_mat_x_" + typ.String(), types: weightTypes(), layouts: denseOnly, bound: tiled(), runs: 4,
			args: func(d *draw) []arg {
				m, p, q := d.size(300), d.size(2), d.size(2)
				return []arg{d.normal(d.depth(), m, p, q), d.f32(m, d.size(40), p, q).as(typ)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMatX(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.OutProd(rounded(x[0], typ), refmath.Transpose(x[1])) },
		}, opCase{
			name: "tiled_mul_mat_w_" + typ.String(), layouts: denseOnly, bound: tiled(), runs: 4,
			args: func(d *draw) []arg {
				n, p, q := d.size(40), d.size(2), d.size(2)
				return []arg{d.f32(d.size(90), n, p, q).as(typ), d.f32(d.size(300), n, p, q).as(typ)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMatW(x[0], x[1]) },
			want:  func(x refs) refmath.Tensor { return refmath.OutProd(x[0], x[1]) },
		}, inPlace(opCase{
			name: "add_tiled_mul_mat_w_" + typ.String(), layouts: denseOnly, bound: tiled(), runs: 4,
			args: func(d *draw) []arg {
				k, m, n, p, q := d.size(90), d.size(300), d.size(40), d.size(2), d.size(2)
				return []arg{d.f32(k, m, p, q), d.f32(k, n, p, q).as(typ), d.f32(m, n, p, q).as(typ)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.AddTiledMulMatW(x[0], x[1], x[2]) },
			want:  func(x refs) refmath.Tensor { return refmath.Add(x[0], refmath.OutProd(x[1], x[2])) },
		}))
	}
	// Few columns, and sums of products.
	return append(cases, opCase{
		name: "tiled_mul_mat_few", types: weightTypes(), layouts: denseOnly, bound: tiled(), runs: 4,
		args: func(d *draw) []arg {
			k, m, n, p, q := d.depth(), d.size(300), d.size(7), d.size(2), d.size(2)
			return []arg{d.normal(k, m, p, q), d.f32(k, n, p, q), d.f32(70, m, p, q), d.f32(70, n, p, q)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1], x[2], x[3]) },
		want: func(x refs) refmath.Tensor {
			return refmath.Add(refmath.MulMat(x[0], x[1]), refmath.MulMat(x[2], x[3]))
		},
	})
}

// pairCases are sums of products of different types and depths.
func pairCases() []opCase {
	var cases []opCase
	for _, typ := range productTypes() {
		cases = append(cases, opCase{
			name: "tiled_mul_mat_pairs_" + typ.String(), types: []ggml.Type{ggml.F32, ggml.Q8_0}, layouts: denseOnly, bound: tiled(), runs: 4,
			args: func(d *draw) []arg {
				k, m, n := d.depth(), d.size(300), d.size(40)
				return []arg{d.normal(k, m), d.f32(k, n).as(typ), d.f32(7, m), d.f32(7, n), d.f32(9, m), d.f32(9, n)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1], x[2:]...) },
			want: func(x refs) refmath.Tensor {
				return refmath.Add(refmath.Add(refmath.MulMat(rounded(x[0], typ), x[1]), refmath.MulMat(x[2], x[3])), refmath.MulMat(x[4], x[5]))
			},
		}, opCase{
			name: "tiled_mul_mat_x_pairs_" + typ.String(), types: []ggml.Type{ggml.F32, ggml.Q4_0}, layouts: denseOnly, bound: tiled(), runs: 4,
			args: func(d *draw) []arg {
				k, m, n := d.depth(), d.size(300), d.size(40)
				return []arg{d.normal(k, m), d.f32(m, n).as(typ), d.f32(k, 3), d.f32(3, n)}
			},
			build: func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMatX(x[0], x[1], x[2], x[3]) },
			want: func(x refs) refmath.Tensor {
				y := refmath.OutProd(rounded(x[0], typ), refmath.Transpose(x[1]))
				return refmath.Add(y, refmath.OutProd(x[2], refmath.Transpose(x[3])))
			},
		})
	}
	return cases
}

// Matrices of several tiles in each direction.
func TestTiledLarge(t *testing.T) {
	m := machines(t)[0]
	for _, typ := range productTypes() {
		for _, weight := range []ggml.Type{ggml.F32, ggml.BF16, ggml.Q6_K} {
			d := &draw{Rand: rng(9), typ: weight, layouts: denseOnly}
			args := []arg{d.normal(1280, 300), d.f32(1280, 33).as(typ), d.f32(300, 33).as(typ)}
			got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1]) })
			require.True(t, ok)
			w := rounded(args[0].values, typ)
			require.LessOrEqual(t, refmath.NMSE(got.values, refmath.MulMat(w, args[1].values).Data), 1e-11, "%v by %v", weight, typ)
			got, ok = m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMatX(x[0], x[2]) })
			require.True(t, ok)
			require.LessOrEqual(t, refmath.NMSE(got.values, refmath.MulMat(refmath.Transpose(w), args[2].values).Data), 1e-11, "%v by %v", weight, typ)
		}
	}
}

// So many columns of so deep sums that tiles of w come first, beside the library's own product of the same values.
func TestTiledDeep(t *testing.T) {
	if !ggml.TiledBF16() {
		t.Skip("the processor, or the library, multiplies no BF16")
	}
	m := machines(t)[0]
	d := &draw{Rand: rng(12), typ: ggml.Q4_K, layouts: denseOnly}
	const k, o, n, rank = 9 * 256, 4*256 + 6, 301, 5
	args := []arg{d.normal(k, o), d.f32(k, n).as(ggml.BF16), d.f32(rank, o), d.f32(rank, n)}
	got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1], x[2], x[3]) })
	require.True(t, ok)
	args[0] = args[0].as(ggml.BF16).as(ggml.F32)
	args[1] = args[1].as(ggml.F32)
	want, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.Add(c.MulMat(x[0], x[1]), c.MulMat(x[2], x[3])) })
	require.True(t, ok)
	require.LessOrEqual(t, refmath.NMSE(got.values, want.values), 1e-11)
}

// By the identity the products are the weights as tiles have them: exact in F32,
// and in BF16 rounded to the bit, from any type, in whole tiles and at their ends.
func TestTiledWeights(t *testing.T) {
	m := machines(t)[0]
	for _, product := range productTypes() {
		for _, typ := range weightTypes() {
			k := int64(1123)
			if typ.BlockSize() > 1 {
				k = 256 * 5
			}
			d := &draw{Rand: rng(10), typ: typ, layouts: denseOnly}
			w, identity := d.normal(k, 70), d.f32(70, 70).as(product)
			for i := range identity.values.Data {
				identity.values.Data[i] = 0
				if i%71 == 0 {
					identity.values.Data[i] = 1
				}
			}
			got, ok := m.eval(t, []arg{w, identity}, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMatX(x[0], x[1]) })
			require.True(t, ok)
			different := 0
			for i, want := range rounded(w.values, product).Float32() {
				if got.values[i] != want {
					different++
				}
			}
			require.Zero(t, different, "elements of %v in %v", typ, product)
		}
	}
}

// To the bit, a result does not depend on the number of threads, nor does it
// change from run to run.
func TestTiledThreads(t *testing.T) {
	for _, typ := range productTypes() {
		for _, weight := range []ggml.Type{ggml.F32, ggml.Q4_0, ggml.Q6_K} {
			first := tiledResults(t, 1, weight, typ)
			for _, threads := range []int{1, 2, 3, 5} {
				require.Equal(t, first, tiledResults(t, threads, weight, typ), "%v by %v, %d threads", weight, typ, threads)
			}
		}
	}
}

func tiledResults(t *testing.T, threads int, weight, typ ggml.Type) [][]float32 {
	t.Helper()
	const k, m, n, r = 1280, 700, 130, 8
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	w, a, b := leaves.NewTensor(weight, k, m), leaves.NewTensor(ggml.F32, k, r), leaves.NewTensor(ggml.F32, r, m)
	x, y := leaves.NewTensor(ggml.F32, k, n), leaves.NewTensor(ggml.F32, m, n)
	few, sum, thin := leaves.NewTensor(ggml.F32, k, 3), leaves.NewTensor(ggml.F32, m, 3), leaves.NewTensor(ggml.BF16, m, r)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	d := rng(5)
	for _, l := range []*ggml.Tensor{w, a, b, x, y, few, sum, thin} {
		require.NoError(t, l.SetFloat32s(refmath.Normal(d, 1, l.Shape()...).Float32()))
	}
	h := c.TiledMulMat(a, x)
	dh := c.TiledMulMatX(b, y)
	results := []*ggml.Tensor{
		h, dh, c.TiledMulMat(w, c.Cast(x, typ), b, h), c.TiledMulMatX(w, c.Cast(y, typ), a, dh),
		c.TiledMulMatW(x, dh), c.TiledMulMatW(h, y), c.TiledMulMatW(c.Cast(x, typ), c.Cast(y, typ)),
		c.TiledMulMat(w, few), c.TiledMulMat(w, c.Cast(few, typ)), c.AddLowRank(c.Cont(sum), thin, c.TiledMulMat(a, few)),
	}
	if ggml.TiledF16() {
		results = append(results, halved(c.TiledMulMat(w, x, b, h)), halved(c.TiledMulMatX(w, y, a, dh)))
	}
	backend, err := ggml.NewCPUBackend(threads)
	require.NoError(t, err)
	defer backend.Close()
	allocator, err := ggml.NewGraphAllocator(backend.BufferType())
	require.NoError(t, err)
	defer allocator.Close()
	g := c.NewGraph(results...)
	require.NoError(t, allocator.Alloc(g))
	require.NoError(t, backend.Compute(context.Background(), g))
	var values [][]float32
	for _, r := range results {
		v, err := ggml.Read[float32](r)
		require.NoError(t, err)
		values = append(values, v)
	}
	return values
}

func TestTiledErrors(t *testing.T) {
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
		{func(c *ggml.Context) { c.TiledMulMat(w, y) }, "tiled_mul_mat(w q8_0[32, 3], y f32[3, 2]): ne0 of a matrix must be ne0 of what it multiplies: they are 32 and 3"},
		{func(c *ggml.Context) { c.TiledMulMatX(w, x) }, "tiled_mul_mat_x(w q8_0[32, 3], x f32[32, 2]): ne1 of a matrix must be ne0 of what it multiplies: they are 3 and 32"},
		{func(c *ggml.Context) { c.TiledMulMatW(x, big) }, "tiled_mul_mat_w(x f32[32, 2], big f32[32, 4]): ne1 must be equal: x has 2, y has 4"},
		{func(c *ggml.Context) { c.TiledMulMatW(x, half) }, "tiled_mul_mat_w(x f32[32, 2], half f16[32, 2]): y has type f16; it must have f32 or bf16"},
		{func(c *ggml.Context) { c.AddTiledMulMatW(big, x, y) }, "add_tiled_mul_mat_w(big f32[32, 4], x f32[32, 2], y f32[3, 2]): the gradient has the shape [32 3 1 1]"},
		{func(c *ggml.Context) { c.AddTiledMulMatW(square, square, square) }, "an operand shares memory with the one that is changed in place; give the op a copy by Dup"},
		{func(c *ggml.Context) { c.TiledMulMat(w, half) }, "tiled_mul_mat(w q8_0[32, 3], half f16[32, 2]): what a matrix multiplies has type f16; it must have f32 or bf16"},
		{func(c *ggml.Context) { c.TiledMulMat(w, x, w) }, "tiled_mul_mat(w q8_0[32, 3], x f32[32, 2], w q8_0[32, 3]): the operands must be pairs"},
		{func(c *ggml.Context) { c.TiledMulMat(w, x, big, x) }, "tiled_mul_mat(w q8_0[32, 3], x f32[32, 2], big f32[32, 4], x f32[32, 2]): the products must have equal shapes"},
		{func(c *ggml.Context) { c.TiledMulMat(w, x, w, big) }, "tiled_mul_mat(w q8_0[32, 3], x f32[32, 2], w q8_0[32, 3], big f32[32, 4]): the products must have equal shapes"},
		{func(c *ggml.Context) { c.TiledMulMat(x, x, x, x, x, x, x, x, x, x) }, "tiled_mul_mat(x f32[32, 2], x f32[32, 2], x f32[32, 2], x f32[32, 2], x f32[32, 2], x f32[32, 2], x f32[32, 2], x f32[32, 2]): there are 5 pairs; at most 4 can be added up"},
		{func(c *ggml.Context) { c.TiledMulMat(c.Transpose(x), y) }, "tiled_mul_mat(x (transposed) f32[2, 32], y f32[3, 2]): an operand must be contiguous; call Cont"},
		{func(c *ggml.Context) { c.TiledMulMat(many, many) }, "tiled_mul_mat(many f32[1, 1, 65536, 65536], many f32[1, 1, 65536, 65536]): the operands are too large for one op; divide them"},
		{func(c *ggml.Context) { c.TiledMulMatX(w, nil) }, "tiled_mul_mat_x(w q8_0[32, 3], nil): operand 1 is nil"},
	} {
		ops := ggml.NewContext()
		k.build(ops)
		require.ErrorContains(t, ops.Err(), k.want)
		ops.Close()
	}
}

// The choice of the library, in processes of their own: with any, the same operands
// are refused for the same reasons.
func TestTiledLibrary(t *testing.T) {
	if os.Getenv("GOGGML_TEST_LIBRARY") != "" {
		describeLibrary(t)
		return
	}
	for _, k := range []struct{ set, want string }{
		{"GOGGML_BLAS=none", `library "", bf16 false`},
		{"GOGGML_BLAS=libopenblas.so.0", `library "libopenblas.so.0", bf16 false`},
		{"ONEDNN_MAX_CPU_ISA=AVX2", `bf16 false`},
		{"GOGGML_BLAS=", `library "`},
	} {
		c := exec.Command(os.Args[0], "-test.run", "^(TestTiledLibrary|TestTiledLarge|TestTiledErrors|TestLowRankMisuse)$", "-test.v")
		c.Env = append(os.Environ(), "GOGGML_TEST_LIBRARY=yes", k.set)
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s: %s", k.set, out)
		require.Contains(t, string(out), k.want, k.set)
	}
}

func describeLibrary(t *testing.T) {
	t.Logf("library %q, bf16 %v", ggml.TiledLibrary(), ggml.TiledBF16())
	if ggml.TiledBF16() {
		return
	}
	c := ggml.NewContext()
	defer c.Close()
	c.TiledMulMat(c.NewTensor(ggml.F32, 8, 3).SetName("w"), c.NewTensor(ggml.BF16, 8, 2).SetName("x"))
	require.ErrorContains(t, c.Err(), "products of BF16 need oneDNN and a processor with AVX512-BF16 or AMX; give F32")
}
