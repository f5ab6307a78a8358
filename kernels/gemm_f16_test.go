package kernels_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
	"github.com/goggml/ggml/kernels"
)

// relativeErrors returns the errors of columns of m values, each relative to its column.
func relativeErrors[T float32 | float64](got []float32, want []T, m int) []float64 {
	list := make([]float64, len(got)/m)
	for i := range list {
		list[i] = math.Sqrt(refmath.NMSE(got[i*m:(i+1)*m], want[i*m:(i+1)*m]))
	}
	return list
}

// needsLibrary skips a test that needs a GEMM library.
func needsLibrary(t *testing.T) {
	t.Helper()
	if library(t) == "" {
		t.Skip("there is no GEMM library")
	}
}

// f16Error returns the maximum relative error of a column. If the GEMM library does not multiply
// F16, products are exact anyway.
func f16Error() float64 {
	if kernels.HasF16Accumulation() {
		return 5e-3
	}
	return 1e-6
}

// spread multiplies columns by powers of ten from -30 to 30.
func spread(x operand) operand {
	for i := range x.Values.Data {
		column := i / int(x.Values.Ne[0])
		x.Values.Data[i] = float64(float32(x.Values.Data[i] * math.Pow(10, float64(column%61-30))))
	}
	return x
}

// The relative error of each column is a few thousandths, for any blocks of the matrix and any
// scale of the column, in several tiles, compared with products in F32, which other tests compare
// with float64.
func TestGEMMF16(t *testing.T) {
	needsLibrary(t)
	m := optest.Devices(t)[0]
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.Q4_0, ggml.Q4_K} {
		d := &draw{Rand: optest.RNG(21), Type: typ, Layouts: optest.ContiguousOnly}
		const k, o, n, rank = 1024, 1100, 300, 8
		args := []operand{d.Normal(k, o), spread(d.F32(k, n)), spread(d.F32(o, n)), d.F32(o, rank), d.F32(rank, n)}
		for name, product := range map[string]func(c *ctx, acc ggml.Precision, x tensors) *ggml.Tensor{
			"w·x": func(c *ctx, acc ggml.Precision, x tensors) *ggml.Tensor {
				return kernels.GEMM(c, acc, pair(x[0], x[1]))
			},
			"w·y": func(c *ctx, acc ggml.Precision, x tensors) *ggml.Tensor {
				return kernels.GEMMGradInput(c, acc, pair(x[0], x[2]))
			},
			"w·x + b·h": func(c *ctx, acc ggml.Precision, x tensors) *ggml.Tensor {
				return kernels.GEMMLoRA(c, acc, pair(x[0], x[1]), loraPairs(x[3], x[4])...)
			},
		} {
			got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return product(c, ggml.PrecisionF16, x) })
			require.True(t, ok)
			want, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return product(c, exact, x) })
			require.True(t, ok)
			for column, e := range relativeErrors(got.Values, want.Values, len(want.Values)/n) {
				require.LessOrEqual(t, e, f16Error(), "%s, %v, column %d", name, typ, column)
			}
		}
	}
}

// Compares with float64.
func TestGEMMF16Reference(t *testing.T) {
	needsLibrary(t)
	m := optest.Devices(t)[0]
	d := &draw{Rand: optest.RNG(24), Type: ggml.Q8_0, Layouts: optest.ContiguousOnly}
	const k, o, n = 544, 70, 61
	args := []operand{d.Normal(k, o), spread(d.F32(k, n))}
	got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
		return kernels.GEMM(c, ggml.PrecisionF16, pair(x[0], x[1]))
	})
	require.True(t, ok)
	want := refmath.MulMat(args[0].Values, args[1].Values)
	for column, e := range relativeErrors(got.Values, want.Data, o) {
		require.LessOrEqual(t, e, f16Error(), "column %d", column)
	}
}

// Values too large for F16 are multiplied in F32: weights above 65504, sums above it, and columns
// with infinities, which do not affect other columns.
func TestGEMMF16Range(t *testing.T) {
	needsLibrary(t)
	m := optest.Devices(t)[0]
	for name, change := range map[string]func(w, x []float64){
		"weights":    func(w, _ []float64) { w[5] = 3e5 },
		"sums":       func(w, _ []float64) { fill(w, 6e4) },
		"infinities": func(_, x []float64) { x[700] = math.Inf(1) },
		"nothing":    func(_, x []float64) { fill(x, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			d := &draw{Rand: optest.RNG(22), Type: ggml.BF16, Layouts: optest.ContiguousOnly}
			const k, o, n = 600, 90, 70
			w, x := d.F32(k, o), d.F32(k, n)
			change(w.Values.Data, x.Values.Data)
			args := []operand{w.As(ggml.BF16), x}
			got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
				return kernels.GEMM(c, ggml.PrecisionF16, pair(x[0], x[1]))
			})
			require.True(t, ok)
			want, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pair(x[0], x[1])) })
			require.True(t, ok)
			size := 0.0
			for _, v := range want.Values {
				if !math.IsInf(float64(v), 0) && !math.IsNaN(float64(v)) {
					size = max(size, math.Abs(float64(v)))
				}
			}
			different := 0
			for i, v := range want.Values {
				same := got.Values[i] == v || math.IsNaN(float64(v)) && math.IsNaN(float64(got.Values[i]))
				if !same && !(math.Abs(float64(got.Values[i]-v)) <= 1e-2*size) {
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
func TestGEMMF16Exact(t *testing.T) {
	needsLibrary(t)
	m := optest.Devices(t)[0]
	d := &draw{Rand: optest.RNG(23), Type: ggml.F32, Layouts: optest.ContiguousOnly}
	args := []operand{d.Normal(300, 70), d.F32(300, 40)}
	got, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor {
		return kernels.GEMM(c, ggml.PrecisionF16, pair(x[0], x[1]))
	})
	require.True(t, ok)
	want, ok := m.Eval(t, args, func(c *ctx, x tensors) *ggml.Tensor { return kernels.GEMM(c, exact, pair(x[0], x[1])) })
	require.True(t, ok)
	for i, e := range relativeErrors(got.Values, want.Values, 70) {
		require.Less(t, e, 1e-6, "column %d", i)
	}
}
