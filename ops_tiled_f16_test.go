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
func relativeErrors(got []float32, want refmath.Tensor) []float64 {
	m := int(want.Ne[0])
	list := make([]float64, len(got)/m)
	for i := range list {
		list[i] = math.Sqrt(refmath.NMSE(got[i*m:(i+1)*m], want.Data[i*m:(i+1)*m]))
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

// Every column is off by a few thousandths of itself, whatever the type of the matrix
// and however large or small the column is. Where the library multiplies no F16,
// products are exact all the same.
func TestTiledF16(t *testing.T) {
	needsLibrary(t)
	most := 1e-6
	if ggml.TiledF16() {
		most = 5e-3
	}
	m := machines(t)[0]
	for _, typ := range weightTypes() {
		d := &draw{Rand: rng(21), typ: typ, layouts: denseOnly}
		const k, o, n, rank = 3*256 + 256, 1100, 300, 8
		args := []arg{d.normal(k, o), d.f32(k, n), d.f32(o, n), d.f32(o, rank), d.f32(rank, n)}
		for _, x := range []arg{args[1], args[2]} {
			for i := range x.values.Data {
				column := i / int(x.values.Ne[0])
				x.values.Data[i] = float64(float32(x.values.Data[i] * math.Pow(10, float64(column%61-30))))
			}
		}
		for _, p := range []struct {
			name  string
			build func(c *ctx, x tensors) *ggml.Tensor
			want  refmath.Tensor
		}{
			{"w·x", func(c *ctx, x tensors) *ggml.Tensor { return halved(c.TiledMulMat(x[0], x[1])) }, refmath.MulMat(args[0].values, args[1].values)},
			{"w·y", func(c *ctx, x tensors) *ggml.Tensor { return halved(c.TiledMulMatX(x[0], x[2])) }, refmath.MulMat(refmath.Transpose(args[0].values), args[2].values)},
			{"w·x + b·h", func(c *ctx, x tensors) *ggml.Tensor { return halved(c.TiledLowRank(x[0], x[1], x[3], x[4])) },
				refmath.Add(refmath.MulMat(args[0].values, args[1].values), refmath.MulMat(refmath.Transpose(args[3].values), args[4].values))},
		} {
			got, ok := m.eval(t, args, p.build)
			require.True(t, ok)
			for column, e := range relativeErrors(got.values, p.want) {
				require.LessOrEqual(t, e, most, "%s, %v, column %d", p.name, typ, column)
			}
		}
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
	for i, e := range relativeErrors(got.values, refmath.From(want.values, 70, 40)) {
		require.Less(t, e, 1e-6, "column %d", i)
	}
}
