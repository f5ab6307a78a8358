package ggml_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/optest"
)

func TestConvertRows(t *testing.T) {
	x := []float32{0, 1, -2.75, 65504, 1e9, float32(math.Inf(-1)), 3e-8, float32(math.NaN())}
	half, brain, back := make([]ggml.Float16, 8), make([]ggml.BFloat16, 8), make([]float32, 8)
	require.Equal(t, 8, ggml.FromFloat32s(half, x))
	require.Equal(t, 8, ggml.FromFloat32s(brain, x))
	for i, v := range x {
		require.Equal(t, ggml.ToFloat16(v), half[i])
		require.Equal(t, ggml.ToBFloat16(v), brain[i])
	}
	require.Equal(t, 8, ggml.ToFloat32s(back, half))
	require.Equal(t, []float32{0, 1, -2.75, 65504, float32(math.Inf(1)), float32(math.Inf(-1)), 1.0 / (1 << 25) * 2}, back[:7])
	require.Equal(t, 8, ggml.ToFloat32s(back, brain))
	require.Equal(t, []float32{0, 1, -2.75, 65536}, back[:4])
	require.True(t, back[7] != back[7])

	ints := make([]int32, 8)
	require.Equal(t, 8, ggml.FromFloat32s(ints, x))
	require.Equal(t, []int32{0, 1, -2, 65504, 1e9, math.MinInt32, 0, 0}, ints)
	require.Equal(t, 1, ggml.FromFloat32s(ints, []float32{3e9}))
	require.EqualValues(t, math.MaxInt32, ints[0])
	require.Equal(t, 3, ggml.FromFloat32s(back[:3], []float32{7, 8, 9, 10}))
	require.Equal(t, []float32{7, 8, 9, 65536}, back[:4])
	require.Zero(t, ggml.ToFloat32s(nil, half))
}

func TestValidateRows(t *testing.T) {
	for _, typ := range []ggml.Type{ggml.F32, ggml.F16, ggml.BF16, ggml.Q8_0, ggml.Q4_K, ggml.IQ4NL} {
		good := quantized(t, typ, optest.Normal(4, 512), 256)
		require.NoError(t, ggml.ValidateRows(typ, good))
		bad := append([]byte(nil), good...)
		for i := range bad {
			bad[i] = 0xff
		}
		require.ErrorContains(t, ggml.ValidateRows(typ, bad), "an infinite value or NaN", typ)
		require.ErrorContains(t, ggml.ValidateRows(typ, good[:len(good)-1]), "not whole blocks")
	}
	require.NoError(t, ggml.ValidateRows(ggml.I32, []byte{0xff, 0xff, 0xff, 0xff}))
	require.NoError(t, ggml.ValidateRows(ggml.F32, nil))
	require.ErrorContains(t, ggml.ValidateRows(5, nil), "there is no type 5")
}
