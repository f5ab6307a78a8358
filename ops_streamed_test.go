package ggml_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

func TestStreamedOps(t *testing.T) { runOps(t, streamedCases()) }

func streamedCases() []opCase {
	return []opCase{{
		name: "stream_mul_mat", types: weightTypes(), layouts: denseOnly, bound: products,
		args: func(d *draw) []arg {
			k, p, q := d.depth(), d.size(2), d.size(2)
			return []arg{d.normal(k, d.size(300), p, q), d.f32(k, d.size(9), p, q)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamMulMat(x[0], x[1]) },
		want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
	}, {
		// Rows of several pieces.
		name: "stream_mul_mat_long", types: weightTypes(), layouts: denseOnly, bound: products, runs: 2,
		args: func(d *draw) []arg {
			k := 256*d.size(12) + d.size(255)
			k = max(k-k%d.typ.BlockSize(), d.typ.BlockSize())
			return []arg{d.normal(k, 30+d.size(9)), d.f32(k, 1+d.size(2))}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamMulMat(x[0], x[1]) },
		want:  func(x refs) refmath.Tensor { return refmath.MulMat(x[0], x[1]) },
	}, {
		// Matrices of two types.
		name: "stream_mul_mat_more", types: weightTypes(), layouts: denseOnly, bound: products, runs: 3,
		args: func(d *draw) []arg {
			k, n, p, q := d.depth(), d.size(4), d.size(2), d.size(2)
			return []arg{d.normal(k, d.size(50), p, q), d.f32(k, n, p, q), d.f32(k, d.size(3), p, q), d.normal(k, d.size(200), p, q), d.normal(k, d.size(9), p, q)}
		},
		build: func(c *ctx, x tensors) *ggml.Tensor { return c.StreamMulMat(x[0], x[1], x[2:]...) },
		want: func(x refs) refmath.Tensor {
			y := refmath.MulMat(x[0], x[1])
			for _, w := range x[2:] {
				y = refmath.Concat(y, refmath.MulMat(w, x[1]), 0)
			}
			return y
		},
	}}
}

// Where rows are short the products with a column are the library's to the bit,
// with any number of threads: only the memory is asked for earlier. Some are
// multiplied by several columns at once, in another order.
func TestStreamedIsMulMat(t *testing.T) {
	for _, typ := range weightTypes() {
		if typ.NeedsImportance() || ggml.StreamsColumns(typ) {
			continue
		}
		leaves, c := ggml.NewContext(), ggml.NewContext()
		defer leaves.Close()
		defer c.Close()
		const k, m = 512, 301
		w, x := leaves.NewTensor(typ, k, m, 2), leaves.NewTensor(ggml.F32, k, 1, 2)
		buffers, err := leaves.Allocate(ggml.CPUBufferType())
		require.NoError(t, err)
		defer buffers.Close()
		for _, l := range []*ggml.Tensor{w, x} {
			require.NoError(t, l.SetFloat32s(refmath.Normal(rng(3), 1, l.Shape()...).Float32()))
		}
		want, got := c.MulMat(w, x), c.StreamMulMat(w, x)
		twice := c.StreamMulMat(w, x, w)
		g := c.NewGraph(want, got, twice)
		require.NoError(t, graphAllocator(t).Alloc(g))
		for _, threads := range []int{1, 2, 3} {
			require.NoError(t, cpuBackend(t, threads).Compute(context.Background(), g))
			a := numbers(t, want)
			require.Equal(t, a, numbers(t, got), "%v, %d threads", typ, threads)
			require.Equal(t, slices.Concat(a[:m], a[:m], a[m:], a[m:]), numbers(t, twice), "twice, %v, %d threads", typ, threads)
		}
	}
}

// Those differ from the library's in the order of the sum alone, whether or not rows
// are of as many blocks as are multiplied at once, and they depend neither on the
// number of threads nor on the other columns.
func TestStreamedColumns(t *testing.T) {
	info, err := ggml.ReadCPUInfo()
	require.NoError(t, err)
	for _, typ := range []ggml.Type{ggml.Q8_0, ggml.Q4_0} {
		require.Equal(t, info.AVX512VNNI && runtime.GOOS == "linux", ggml.StreamsColumns(typ))
		for _, k := range []int64{32, 96, 160, 224, 256, 288, 1024, 2048, 2816, 5632, 5664} {
			for _, n := range []int64{1, 2, 3, 4, 7} {
				t.Run(fmt.Sprintf("%v/%dx%d", typ, k, n), func(t *testing.T) { testStreamedColumns(t, typ, k, n) })
			}
		}
	}
}

func testStreamedColumns(t *testing.T, typ ggml.Type, k, n int64) {
	const m = 37
	leaves, c := ggml.NewContext(), ggml.NewContext()
	defer leaves.Close()
	defer c.Close()
	w, x := leaves.NewTensor(typ, k, m), leaves.NewTensor(ggml.F32, k, n)
	buffers, err := leaves.Allocate(ggml.CPUBufferType())
	require.NoError(t, err)
	defer buffers.Close()
	draw := rng(uint64(k))
	data := make([]byte, w.NumBytes())
	for i := range data {
		data[i] = byte(draw.IntN(256))
	}
	for block := range slices.Chunk(data, int(typ.Size())) {
		block[1] = block[1]&0x83 | 0x28 // a scale of 2⁻⁵ to 2⁻⁴, of either sign
	}
	require.NoError(t, w.WriteBytes(data, 0))
	columns := refmath.Normal(draw, 1, k, n).Float32()
	if k > 32 {
		clear(columns[:32])
	}
	require.NoError(t, x.SetFloat32s(columns))
	want, got := c.MulMat(w, x), c.StreamMulMat(w, x)
	alone := c.StreamMulMat(w, c.View(x, []int64{k, 1}, []int64{x.Stride(1)}, (n-1)*x.Stride(1)))
	g := c.NewGraph(want, got, alone)
	require.NoError(t, graphAllocator(t).Alloc(g))
	var first []float32
	for _, threads := range []int{1, 2, 3} {
		require.NoError(t, cpuBackend(t, threads).Compute(context.Background(), g))
		values := numbers(t, got)
		// A single element rounded otherwise would make some thousandths.
		require.Less(t, refmath.MaxAbsDiff(values, numbers(t, want)), 1e-3)
		if first == nil {
			first = values
		}
		require.True(t, slices.Equal(first, values), "%d threads", threads)
		require.True(t, slices.Equal(numbers(t, alone), values[(n-1)*m:]), "alone, %d threads", threads)
	}
}

// The first op of a process finds the CPU plugin too: it is loaded for it.
func TestStreamedFirst(t *testing.T) {
	if os.Getenv("GOGGML_TEST_STREAM") == "" {
		child := exec.Command(os.Args[0], "-test.run", "^TestStreamedFirst$")
		child.Env = append(os.Environ(), "GOGGML_TEST_STREAM=yes")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	c := ggml.NewContext()
	defer c.Close()
	w, x := c.NewTensor(ggml.F32, 8, 3), c.NewTensor(ggml.F32, 8, 1)
	streamed := c.StreamMulMat(w, x).Op()
	if _, err := ggml.F32.CPUTraits(); err != nil {
		t.Skip(err)
	}
	require.NotEqual(t, c.MulMat(w, x).Op(), streamed)
}

func TestStreamedErrors(t *testing.T) {
	c := ggml.NewContext()
	defer c.Close()
	w := c.NewTensor(ggml.Q8_0, 32, 3).SetName("w")
	x := c.NewTensor(ggml.F32, 32, 2).SetName("x")
	for _, k := range []struct {
		build func(c *ggml.Context)
		want  string
	}{
		{func(c *ggml.Context) { c.StreamMulMat(w, c.NewTensor(ggml.F32, 64, 1)) }, "ne0 must be equal: w has 32, x has 64"},
		{func(c *ggml.Context) { c.StreamMulMat(w, c.NewTensor(ggml.F32, 32, 1, 2)) }, "ne2 and ne3 must be equal"},
		{func(c *ggml.Context) { c.StreamMulMat(w, c.NewTensor(ggml.F16, 32, 1)) }, "x has type f16; it must have f32"},
		{func(c *ggml.Context) { c.StreamMulMat(c.NewTensor(ggml.I32, 32, 1), x) }, "w has no float or quantised type"},
		{func(c *ggml.Context) { c.StreamMulMat(c.Transpose(x), x) }, "w must be contiguous; call Cont"},
		{func(c *ggml.Context) { c.StreamMulMat(w, nil) }, "stream_mul_mat"},
		{func(c *ggml.Context) { c.StreamMulMat(w, x, w, c.NewTensor(ggml.F16, 64, 1)) }, "ne0 must be equal: w has 64, x has 32"},
		{func(c *ggml.Context) { c.StreamMulMat(w, x, w, w, w, w, w, w, w, w) }, "there are 9 matrices; at most 8 can be multiplied"},
	} {
		ops := ggml.NewContext()
		k.build(ops)
		require.ErrorContains(t, ops.Err(), k.want)
		ops.Close()
	}
}
