package ggml_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
)

// Values that Quantize accepts read back finite; if a float or a scale cannot hold a value, the
// error names the value.
func TestQuantizeReadsBackFinite(t *testing.T) {
	need.Time(t, "it takes seconds")
	for _, typ := range ggml.Types() {
		if !typ.CanQuantize() || typ == ggml.F32 {
			continue
		}
		n := 2 * int(max(typ.BlockSize(), 256))
		importance := make([]float32, n/2)
		for i := range importance {
			importance[i] = 1
		}
		refused := 0
		for _, size := range []float64{1, 6e4, 7e4, 1e7, 1e10, 1e20, math.MaxFloat32} {
			values := make([]float32, n)
			for i := range values {
				values[i] = float32(i%7) - 3
			}
			values[n-2] = float32(-size)
			raw, back := make([]byte, typ.RowSize(int64(n))), make([]float32, n)
			err := ggml.Quantize(raw, typ, values, ggml.QuantizeOptions{RowLen: n / 2, Importance: importance})
			if err != nil {
				require.ErrorContains(t, err, fmt.Sprintf("quantize to %v: value %d of row 1 is %v, which is too large for %v; use f32", typ, n/2-2, float32(-size), typ))
				refused++
				continue
			}
			require.NoError(t, ggml.Dequantize(back, typ, raw))
			for i, x := range back {
				require.Zero(t, x-x, "%v: value %d of up to %g is %v", typ, i, size, x)
			}
			if size > 10 { // than the others
				require.Greater(t, -float64(back[n-2]), size/300, "%v", typ) // for 1 bit it is the mean
			}
		}
		t.Logf("%v: %d of 7 refused", typ, refused)
		require.Less(t, refused, 7, "%v", typ)
	}
	err := ggml.Quantize(make([]byte, 34), ggml.Q8_0, append(make([]float32, 31), 1e10), ggml.QuantizeOptions{})
	require.EqualError(t, err, "ggml: quantize to q8_0: value 31 of row 0 is 1e+10, which is too large for q8_0; use f32 or bf16")
	err = ggml.Quantize(make([]byte, 2), ggml.BF16, []float32{math.MaxFloat32}, ggml.QuantizeOptions{})
	require.EqualError(t, err, "ggml: quantize to bf16: value 0 of row 0 is 3.4028235e+38, which is too large for bf16; use f32")
}

// Only the ratios of importances matter, however large they are.
func TestQuantizeScaledImportance(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, typ := range ggml.Types() {
		if !typ.CanQuantize() {
			continue
		}
		if testing.Short() && strings.HasPrefix(typ.String(), "iq") {
			continue // some tables take seconds
		}
		values, importance, larger := make([]float32, 256), make([]float32, 256), make([]float32, 256)
		for i := range values {
			values[i], importance[i] = float32(rng.NormFloat64()), rng.Float32()
			larger[i] = float32(math.Ldexp(float64(importance[i]), 127))
		}
		want, got := make([]byte, typ.RowSize(256)), make([]byte, typ.RowSize(256))
		require.NoError(t, ggml.Quantize(want, typ, values, ggml.QuantizeOptions{Importance: importance}))
		require.NoError(t, ggml.Quantize(got, typ, values, ggml.QuantizeOptions{Importance: larger}))
		require.Equal(t, want, got, "%v", typ)
	}
}
