package kernels_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

func gemvCases() []opCase {
	return []opCase{{
		Name: "gemv", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.MulMat,
		Operands: func(d *draw) []operand {
			k, p, q := d.K(), d.Size(2), d.Size(2)
			return []operand{d.Normal(k, d.Size(300), p, q), d.F32(k, d.Size(9), p, q)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMV(c, x[1], x[0]) },
		Want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
	}, {
		// Rows of several pieces.
		Name: "gemv_long", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 2,
		Operands: func(d *draw) []operand {
			k := 256*d.Size(12) + d.Size(255)
			k = max(k-k%d.Type.BlockSize(), d.Type.BlockSize())
			return []operand{d.Normal(k, 30+d.Size(9)), d.F32(k, 1+d.Size(2))}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMV(c, x[1], x[0]) },
		Want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
	}, {
		// More matrices than one op takes.
		Name: "gemv_many", Types: []ggml.Type{ggml.F32, ggml.Q8_0}, Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 2,
		Operands: func(d *draw) []operand {
			k, n := d.K(), d.Size(4)
			list := []operand{d.F32(k, n)}
			for range 2*ggml.MaxOperands + 1 {
				list = append(list, d.Normal(k, d.Size(9)))
			}
			return list
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMV(c, x[0], x[1:]...) },
		Want: func(x refs) refmath.Tensor {
			y := refmath.MulMat(x[1], x[0])
			for _, w := range x[2:] {
				y = refmath.Concat(y, refmath.MulMat(w, x[0]), 0)
			}
			return y
		},
	}, {
		// Matrices of two types.
		Name: "gemv_more", Types: optest.WeightTypes(), Layouts: optest.ContiguousOnly, Bound: optest.MulMat, Runs: 3,
		Operands: func(d *draw) []operand {
			k, n, p, q := d.K(), d.Size(4), d.Size(2), d.Size(2)
			return []operand{d.Normal(k, d.Size(50), p, q), d.F32(k, n, p, q), d.F32(k, d.Size(3), p, q), d.Normal(k, d.Size(200), p, q), d.Normal(k, d.Size(9), p, q)}
		},
		Build: func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMV(c, x[1], append(tensors{x[0]}, x[2:]...)...) },
		Want: func(x refs) refmath.Tensor {
			y := refmath.MulMat(x[0], x[1])
			for _, w := range x[2:] {
				y = refmath.Concat(y, refmath.MulMat(w, x[1]), 0)
			}
			return y
		},
	}}
}

// For short rows GEMV equals MulMat to the bit, with any number of threads: it prefetches, and
// calls the same dot product. Types with a batched GEMV sum in another order.
func TestGEMVIsMulMat(t *testing.T) {
	for _, typ := range optest.WeightTypes() {
		if typ.NeedsImportance() || kernels.HasBatchedGEMV(typ) {
			continue
		}
		leaves, c := ggml.NewContext(), ggml.NewContext()
		defer leaves.Close()
		defer c.Close()
		const k, m = 512, 301
		w, x := leaves.NewTensor(typ, k, m, 2), leaves.NewTensor(ggml.F32, k, 1, 2)
		buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
		defer buffers.Close()
		d := optest.NewDraw(3, typ)
		d.Normal(w.Shape()...).Write(t, w)
		d.F32(x.Shape()...).Write(t, x)
		want, got := c.MulMat(w, x), kernels.GEMV(c, x, w)
		twice := kernels.GEMV(c, x, w, w)
		g := c.NewGraph(want, got, twice)
		require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
		for _, threads := range []int{1, 2, 3} {
			require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
			a := optest.Values(t, want)
			require.Equal(t, a, optest.Values(t, got), "%v, %d threads", typ, threads)
			require.Equal(t, slices.Concat(a[:m], a[:m], a[m:], a[m:]), optest.Values(t, twice), "twice, %v, %d threads", typ, threads)
		}
	}
}

// A batched GEMV differs from MulMat only in the order of the sum, for whole and partial blocks of
// a row, and depends neither on the number of threads nor on the other columns: all equal one, but quantised ones with
// AVX512-VNNI equal eight from there on.
func TestGEMVBatched(t *testing.T) {
	info := need.Value(ggml.ReadCPUInfo())(t)
	for typ := range scaleFields {
		if os.Getenv("ONEDNN_MAX_CPU_ISA") == "" {
			require.Equal(t, info.AVX2 && info.F16C && info.FMA, kernels.HasBatchedGEMV(typ))
		}
		for _, k := range []int64{5, 32, 40, 96, 160, 224, 256, 288, 768, 1024, 2048, 2816, 5632, 5664} {
			if k%typ.BlockSize() != 0 {
				continue
			}
			for _, n := range []int64{1, 2, 3, 4, 7, 8, 13, 33} {
				t.Run(fmt.Sprintf("%v/%dx%d", typ, k, n), func(t *testing.T) { testGEMVBatched(t, typ, k, n) })
			}
		}
	}
}

// scaleFields maps the types with a batched GEMV to the positions of F16 numbers in a block, and to
// the power of two that limits them.
var scaleFields = map[ggml.Type]struct {
	at    []int
	below int
}{
	ggml.F16: {[]int{0}, -1}, ggml.Q8_0: {[]int{0}, -4}, ggml.Q4_0: {[]int{0}, -4},
	ggml.Q4_K: {[]int{0, 2}, -9}, ggml.Q5_K: {[]int{0, 2}, -9}, ggml.Q6_K: {[]int{208}, -9},
}

func testGEMVBatched(t *testing.T, typ ggml.Type, k, n int64) {
	const m = 37
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	w, x := leaves.NewTensor(typ, k, m), leaves.NewTensor(ggml.F32, k, n)
	buffers := need.Value(leaves.Allocate(ggml.CPUBufferType()))(t)
	defer buffers.Close()
	draw := optest.RNG(uint64(k))
	data := make([]byte, w.NumBytes())
	for i := range data {
		data[i] = byte(draw.IntN(256))
	}
	fields := scaleFields[typ]
	for block := range slices.Chunk(data, int(typ.BlockBytes())) {
		for _, at := range fields.at {
			block[at+1] = block[at+1]&0x83 | byte(fields.below+14)<<2 // from half the limit on, with either sign
		}
	}
	require.NoError(t, optest.Err(w.WriteAt(data, 0)))
	columns := refmath.Normal(draw, 1, k, n).Float32()
	if block := typ.BlockSize(); k > block {
		clear(columns[:block])
	}
	require.NoError(t, x.SetFloat32s(columns))
	want, got := c.MulMat(w, x), kernels.GEMV(c, x, w)
	least := int64(1)
	if info := need.Value(ggml.ReadCPUInfo())(t); n >= 8 && typ != ggml.F16 && info.AVX512VNNI {
		least = 8
	}
	alone := kernels.GEMV(c, c.View(x, []int64{k, least}, []int64{x.Stride(1)}, (n-least)*x.Stride(1)), w)
	g := c.NewGraph(want, got, alone)
	require.NoError(t, optest.NewGraphAllocator(t).Allocate(g))
	var first []float32
	for _, threads := range []int{1, 2, 3} {
		require.NoError(t, optest.NewCPUBackend(t, threads).Compute(context.Background(), g))
		values := optest.Values(t, got)
		// Rounding a single element differently would change the result by some thousandths.
		require.Less(t, refmath.MaxAbsDiff(values, optest.Values(t, want)), 1e-3)
		if first == nil {
			first = values
		}
		require.True(t, slices.Equal(first, values), "%d threads", threads)
		require.True(t, slices.Equal(optest.Values(t, alone), values[(n-least)*m:]), "alone, %d threads", threads)
	}
}

// Matrices of several types in one op give the same results as alone, whether or not types share
// quantised columns.
func TestGEMVOfTypes(t *testing.T) {
	w := optest.NewWorkbench(t)
	const k, m = 512, 5
	x := w.Leaves.NewTensor(ggml.F32, k, 1).SetInput()
	var matrices, alone []*ggml.Tensor
	for _, typ := range []ggml.Type{ggml.Q4_K, ggml.Q6_K, ggml.Q8_0, ggml.F16, ggml.Q5_K, ggml.Q3_K, ggml.Q4_0, ggml.Q4_K} {
		matrix := w.Leaves.NewTensor(typ, k, m).SetInput()
		matrices, alone = append(matrices, matrix), append(alone, kernels.GEMV(w.Context, x, matrix))
	}
	together := kernels.GEMV(w.Context, x, matrices...)
	g := w.NewGraph(append(alone, together)...)
	require.NoError(t, w.Allocator.Allocate(g))
	require.NoError(t, ggml.Write(x, refmath.Normal(optest.RNG(0), 1, k).Float32()))
	for i, matrix := range matrices {
		require.NoError(t, matrix.SetFloat32s(refmath.Normal(optest.RNG(uint64(i)), 1, k, m).Float32()))
	}
	w.Compute(g)
	var want []float32
	for _, y := range alone {
		want = append(want, optest.Values(t, y)...)
	}
	require.Equal(t, want, optest.Values(t, together))
}

// The first op of a process also loads the CPU plugin.
func TestGEMVFirst(t *testing.T) {
	if os.Getenv("GOGGML_TEST_GEMV") == "" {
		child := exec.Command(os.Args[0], "-test.run", "^TestGEMVFirst$")
		child.Env = append(os.Environ(), "GOGGML_TEST_GEMV=yes")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.F32, 8, 3), c.NewTensor(ggml.F32, 8, 1)
	y := kernels.GEMV(c, x, w)
	if _, err := ggml.F32.CPUTraits(); err != nil {
		t.Skip(err)
	}
	require.Equal(t, "gemv", y.Op())
}

func TestGEMVErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.Q8_0, 32, 3).SetName("w")
	x := c.NewTensor(ggml.F32, 32, 2).SetName("x")
	for _, k := range []struct {
		build func(c *ggml.Context)
		want  string
	}{
		{func(c *ggml.Context) { kernels.GEMV(c, c.NewTensor(ggml.F32, 64, 1), w) }, "ne0 must be equal: W has 32, X has 64"},
		{func(c *ggml.Context) { kernels.GEMV(c, c.NewTensor(ggml.F32, 32, 1, 2), w) }, "ne2 and ne3 must be equal"},
		{func(c *ggml.Context) { kernels.GEMV(c, c.NewTensor(ggml.F16, 32, 1), w) }, "X has type f16; it must have f32"},
		{func(c *ggml.Context) { kernels.GEMV(c, x, c.NewTensor(ggml.I32, 32, 1)) }, "W has type i32, which is neither a float nor a quantised type"},
		{func(c *ggml.Context) { kernels.GEMV(c, x, c.Transpose(x)) }, "W must be contiguous; call Cont"},
		{func(c *ggml.Context) { kernels.GEMV(c, nil, w) }, "gemv(nil, w q8_0[32, 3]): operand 0 is nil"},
		{func(c *ggml.Context) { kernels.GEMV(c, x, w, w, c.NewTensor(ggml.F16, 64, 1)) }, "ne0 must be equal: W has 64, X has 32"},
		{func(c *ggml.Context) { kernels.GEMV(c, x) }, "there is no matrix to multiply"},
	} {
		ops := ggml.NewContext()
		k.build(ops)
		require.ErrorContains(t, ops.Err(), k.want)
		ops.Close()
	}
}
