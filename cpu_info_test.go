package ggml_test

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func TestCPUInfo(t *testing.T) {
	require.NoError(t, ggml.InitCPU())
	info := need.Value(ggml.ReadCPUInfo())(t)
	// The plugin's own list is the same.
	listed := map[string]string{}
	features := need.Value(ggml.CPUFeatures())(t)
	for _, f := range features {
		listed[strings.ReplaceAll(f.Name, "_", "")] = f.Value
	}
	require.Equal(t, info.SSE3, listed["SSE3"] == "1")
	require.Equal(t, info.AVX2, listed["AVX2"] == "1")
	require.Equal(t, info.AVX512VNNI, listed["AVX512VNNI"] == "1")
	require.Equal(t, info.FMA, listed["FMA"] == "1")
	require.Equal(t, info.NEON, listed["NEON"] == "1")
	require.Equal(t, info.Llamafile, listed["LLAMAFILE"] == "1")
	if runtime.GOARCH == "amd64" {
		require.False(t, info.NEON || info.SVE || info.RISCVV)
		require.Zero(t, info.SVEBytes)
	}
	r := need.Value(ggml.CPURegistry())(t)
	require.Equal(t, "CPU", r.Name())
	b := need.Value(ggml.NewCPUBackend(1))(t)
	defer b.Close()
	require.True(t, b.IsCPU())
}

// The routines agree with references for every type that has them.
func TestCPUTraits(t *testing.T) {
	const n = 512
	r := optest.RNG(11)
	x, y := refmath.Normal(r, 1, n).Float32(), refmath.Normal(r, 1, n).Float32()
	dots := 0
	for _, typ := range ggml.Types() {
		traits := need.Value(typ.CPUTraits())(t)
		if slices.Contains([]string{"iq1", "iq2", "iq3"}, typ.String()[:min(3, len(typ.String()))]) {
			continue // quantising to these types takes seconds
		}
		if traits.HasFromFloat() && typ.CanDequantize() {
			row := make([]byte, typ.RowSize(n))
			require.NoError(t, traits.FromFloat(row, x))
			back := make([]float32, n)
			require.NoError(t, ggml.Dequantize(back, typ, row))
			best := make([]float32, n)
			require.NoError(t, ggml.Dequantize(best, typ, quantized(t, typ, x, n)))
			want := refmath.From(x).Data
			require.LessOrEqual(t, refmath.NMSE(back, want), 2*refmath.NMSE(best, want)+1e-12, typ)
			require.ErrorContains(t, traits.FromFloat(row[1:], x), "the destination has")
		}
		if !traits.HasDot() || !typ.CanDequantize() {
			continue
		}
		dots++
		a := quantized(t, typ, x, n)
		other := need.Value(traits.DotType.CPUTraits())(t)
		b := make([]byte, traits.DotType.RowSize(n))
		if traits.DotType == ggml.F32 {
			b = quantized(t, ggml.F32, y, n)
		} else {
			require.NoError(t, other.FromFloat(b, y))
		}
		got := need.Value(traits.Dot(a, b, n))(t)
		values := make([]float32, n)
		require.NoError(t, ggml.Dequantize(values, typ, a))
		want, norm := 0.0, 0.0
		for i, v := range values {
			want += float64(v) * float64(y[i])
			norm += float64(v) * float64(v)
		}
		// y is rounded to the type of the dot product: the error is at most 1/127 of its largest
		// value.
		require.LessOrEqual(t, math.Abs(float64(got)-want), 4.0/127*math.Sqrt(norm)+1e-3, typ)
		_, err := traits.Dot(a[1:], b, n)
		require.ErrorContains(t, err, "a dot product of 512 values takes")
		_, err = traits.Dot(a, b, -1)
		require.ErrorContains(t, err, "a dot product of -1 values")
	}
	require.Greater(t, dots, 15)
	_, err := ggml.Type(4).CPUTraits()
	require.ErrorContains(t, err, "there is no type 4")
	_, err = ggml.CPUTraits{}.Dot(nil, nil, 0)
	require.ErrorContains(t, err, "no dot product")
	require.ErrorContains(t, ggml.CPUTraits{}.FromFloat(nil, nil), "converts no rows")
}
