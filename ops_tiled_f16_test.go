package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/refmath"
)

// halved lets a tiled product be added up in F16.
func halved(t *ggml.Tensor) *ggml.Tensor { return t.SetAccPrecision(ggml.PrecisionF16) }

// relativeErrors are those of columns of m values, each beside its own size.
func relativeErrors[T float32 | float64](got []float32, want []T, m int) []float64 {
	list := make([]float64, len(got)/m)
	for i := range list {
		list[i] = math.Sqrt(refmath.NMSE(got[i*m:(i+1)*m], want[i*m:(i+1)*m]))
	}
	return list
}

// needsLibrary skips a test of what only a library multiplies.
func needsLibrary(t *testing.T) {
	t.Helper()
	if ggml.TiledLibrary() == "" {
		t.Skip("there is no library of products")
	}
}

// f16Error is how far off a column may be, of its own size. Where the library
// multiplies no F16, products are exact all the same.
func f16Error() float64 {
	if ggml.TiledF16() {
		return 5e-3
	}
	return 1e-6
}

// spread multiplies columns by powers of ten from -30 to 30.
func spread(x arg) arg {
	for i := range x.values.Data {
		column := i / int(x.values.Ne[0])
		x.values.Data[i] = float64(float32(x.values.Data[i] * math.Pow(10, float64(column%61-30))))
	}
	return x
}

// Every column is off by a few thousandths of itself, whatever the blocks of the
// matrix and however large or small the column is, in several tiles: beside the same
// products in F32, which other tests hold against float64.
func TestTiledF16(t *testing.T) {
	needsLibrary(t)
	m := machines(t)[0]
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q4_0, ggml.Q4_K} {
		d := &draw{Rand: rng(21), typ: typ, layouts: denseOnly}
		const k, o, n, rank = 1024, 1100, 300, 8
		args := []arg{d.normal(k, o), spread(d.f32(k, n)), spread(d.f32(o, n)), d.f32(o, rank), d.f32(rank, n)}
		for name, product := range map[string]func(c *ctx, x tensors) *ggml.Tensor{
			"w·x":       func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1]) },
			"w·y":       func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMatX(x[0], x[2]) },
			"w·x + b·h": func(c *ctx, x tensors) *ggml.Tensor { return c.TiledLowRank(x[0], x[1], x[3], x[4]) },
		} {
			got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return halved(product(c, x)) })
			require.True(t, ok)
			want, ok := m.eval(t, args, product)
			require.True(t, ok)
			for column, e := range relativeErrors(got.values, want.values, len(want.values)/n) {
				require.LessOrEqual(t, e, f16Error(), "%s, %v, column %d", name, typ, column)
			}
		}
	}
}

// The same beside float64.
func TestTiledF16Reference(t *testing.T) {
	needsLibrary(t)
	m := machines(t)[0]
	d := &draw{Rand: rng(24), typ: ggml.Q8_0, layouts: denseOnly}
	const k, o, n = 544, 70, 61
	args := []arg{d.normal(k, o), spread(d.f32(k, n))}
	got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return halved(c.TiledMulMat(x[0], x[1])) })
	require.True(t, ok)
	want := refmath.MulMat(args[0].values, args[1].values)
	for column, e := range relativeErrors(got.values, want.Data, o) {
		require.LessOrEqual(t, e, f16Error(), "column %d", column)
	}
}

// What halves cannot hold is multiplied in F32: weights above 65504, sums above it,
// and columns with infinities, which leave the others alone.
func TestTiledF16Range(t *testing.T) {
	needsLibrary(t)
	m := machines(t)[0]
	for name, change := range map[string]func(w, x []float64){
		"weights":    func(w, _ []float64) { w[5] = 3e5 },
		"sums":       func(w, _ []float64) { fill(w, 6e4) },
		"infinities": func(_, x []float64) { x[700] = math.Inf(1) },
		"nothing":    func(_, x []float64) { fill(x, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			d := &draw{Rand: rng(22), typ: ggml.BF16, layouts: denseOnly}
			const k, o, n = 600, 90, 70
			w, x := d.f32(k, o), d.f32(k, n)
			change(w.values.Data, x.values.Data)
			args := []arg{w.as(ggml.BF16), x}
			got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return halved(c.TiledMulMat(x[0], x[1])) })
			require.True(t, ok)
			want, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1]) })
			require.True(t, ok)
			size := 0.0
			for _, v := range want.values {
				if !math.IsInf(float64(v), 0) && !math.IsNaN(float64(v)) {
					size = max(size, math.Abs(float64(v)))
				}
			}
			different := 0
			for i, v := range want.values {
				same := got.values[i] == v || math.IsNaN(float64(v)) && math.IsNaN(float64(got.values[i]))
				if !same && !(math.Abs(float64(got.values[i]-v)) <= 1e-2*size) {
					different++
				}
			}
			require.Zero(t, different)
		})
	}
}

func fill(values []float64, v float64) {
	for i := range values {
		values[i] = v
	}
}

// Matrices in F32 are multiplied in F32.
func TestTiledF16Exact(t *testing.T) {
	needsLibrary(t)
	m := machines(t)[0]
	d := &draw{Rand: rng(23), typ: ggml.F32, layouts: denseOnly}
	args := []arg{d.normal(300, 70), d.f32(300, 40)}
	got, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return halved(c.TiledMulMat(x[0], x[1])) })
	require.True(t, ok)
	want, ok := m.eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return c.TiledMulMat(x[0], x[1]) })
	require.True(t, ok)
	for i, e := range relativeErrors(got.values, want.values, 70) {
		require.Less(t, e, 1e-6, "column %d", i)
	}
}
