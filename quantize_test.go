package ggml_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/goggml/ggml"
	"github.com/goggml/ggml/internal/test/need"
	"github.com/goggml/ggml/internal/test/optest"
	"github.com/goggml/ggml/internal/test/refmath"
)

func TestQuantizeErrorPerType(t *testing.T) {
	src := optest.Normal(1, 4*512)
	tested := 0
	for _, typ := range ggml.Types() {
		if !typ.CanQuantize() {
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			if testing.Short() && slices.Contains(optest.SlowTypes, typ) {
				t.Skip("slow")
			}
			got := make([]float32, len(src))
			require.NoError(t, ggml.Dequantize(got, typ, quantized(t, typ, src, 512)))
			bound, known := optest.QuantizeError[typ.String()]
			require.True(t, known, "no bound for this type")
			e := refmath.RelativeError(got, src)
			require.LessOrEqual(t, e, bound)
			if bound > 0 {
				require.Greater(t, e, bound/2, "the bound is too wide")
			}
		})
		tested++
	}
	require.Equal(t, len(optest.QuantizeError), tested)
}

func TestDequantizeAgreesWithReference(t *testing.T) {
	src := optest.Normal(2, 3*256)
	for _, f := range refmath.Formats() {
		typ := ggml.Type(f)
		data := quantized(t, typ, src, 256)
		want := need.Value(refmath.Dequantize(f, data))(t)
		got := make([]float32, len(src))
		require.NoError(t, ggml.Dequantize(got, typ, data))
		require.Equal(t, want, got, "%v", typ)
	}
}

func TestQuantizeOneRowAtATime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]ggml.Type{ggml.Q4_0, ggml.Q8_0, ggml.Q4_K, ggml.Q6_K, ggml.F16, ggml.IQ4NL}).Draw(t, "type")
		rowLen := int(typ.BlockSize()) * rapid.IntRange(1, 3).Draw(t, "blocks")
		rows := rapid.IntRange(1, 4).Draw(t, "rows")
		src := rapid.SliceOfN(rapid.Float32Range(-1e4, 1e4), rows*rowLen, rows*rowLen).Draw(t, "src")
		whole := quantized(t, typ, src, rowLen)
		var parts []byte
		for i := range rows {
			parts = append(parts, quantized(t, typ, src[i*rowLen:(i+1)*rowLen], rowLen)...)
		}
		require.Equal(t, whole, parts)
	})
}

func TestImportanceMatters(t *testing.T) {
	src, importance := optest.Normal(3, 256), optest.Ones(256)
	for i := range 16 {
		importance[i] = 1000
	}
	plain, weighted := make([]float32, 256), make([]float32, 256)
	require.NoError(t, ggml.Dequantize(plain, ggml.Q2_K, quantized(t, ggml.Q2_K, src, 256)))
	data := make([]byte, ggml.Q2_K.RowSize(256))
	require.NoError(t, ggml.Quantize(data, ggml.Q2_K, src, ggml.QuantizeOptions{RowLen: 256, Importance: importance}))
	require.NoError(t, ggml.Dequantize(weighted, ggml.Q2_K, data))
	require.NotEqual(t, plain, weighted)
	require.Less(t, refmath.RelativeError(weighted[:16], src[:16]), refmath.RelativeError(plain[:16], src[:16]))
}

func TestQuantizeErrors(t *testing.T) {
	x := optest.Normal(4, 64)
	nan, inf := append([]float32(nil), x...), append([]float32(nil), x...)
	nan[33], inf[1] = float32(math.NaN()), float32(math.Inf(-1))
	for want, err := range map[string]error{
		"ggml: quantize to q4_0: rows have 33 values; they must have a multiple of 32":               ggml.Quantize(make([]byte, 18), ggml.Q4_0, x[:33], ggml.QuantizeOptions{}),
		"ggml: quantize to q4_0: rows have -32 values; they must have a multiple of 32":              ggml.Quantize(nil, ggml.Q4_0, x, ggml.QuantizeOptions{RowLen: -32}),
		"ggml: quantize to q4_0: 48 values are not whole rows of 32":                                 ggml.Quantize(nil, ggml.Q4_0, x[:48], ggml.QuantizeOptions{RowLen: 32}),
		"ggml: quantize to q4_0: 64 values take 36 bytes, the destination has 35":                    ggml.Quantize(make([]byte, 35), ggml.Q4_0, x, ggml.QuantizeOptions{RowLen: 32}),
		"ggml: quantize to q4_0: value 1 of row 1 is NaN; values must be finite":                     ggml.Quantize(make([]byte, 36), ggml.Q4_0, nan, ggml.QuantizeOptions{RowLen: 32}),
		"ggml: quantize to q4_0: value 1 of row 0 is -Inf; values must be finite":                    ggml.Quantize(make([]byte, 36), ggml.Q4_0, inf, ggml.QuantizeOptions{RowLen: 32}),
		"ggml: quantize to q4_0: there are 31 importances for rows of 32 values":                     ggml.Quantize(make([]byte, 36), ggml.Q4_0, x, ggml.QuantizeOptions{RowLen: 32, Importance: x[:31]}),
		"ggml: quantize to q4_0: importance 0 is -1; it must be finite and at least 0":               ggml.Quantize(make([]byte, 36), ggml.Q4_0, x, ggml.QuantizeOptions{RowLen: 32, Importance: append([]float32{-1}, x[:31]...)}),
		"ggml: quantize to iq2_xxs: this type needs the importance of the 256 columns":               ggml.Quantize(make([]byte, 66), ggml.IQ2XXS, make([]float32, 256), ggml.QuantizeOptions{RowLen: 256}),
		"ggml: dequantize from q4_0: 17 bytes are not 32 values; a block has 18 bytes and 32 values": ggml.Dequantize(make([]float32, 32), ggml.Q4_0, make([]byte, 17)),
		"ggml: dequantize from i32: there is no conversion from this type":                           ggml.Dequantize(make([]float32, 1), ggml.I32, make([]byte, 4)),
		"ggml: dequantize from Type(4): there is no conversion from this type":                       ggml.Dequantize(make([]float32, 1), ggml.Type(4), make([]byte, 4)),
		"ggml: dequantize from Type(-1): there is no conversion from this type":                      ggml.Dequantize(make([]float32, 1), ggml.Type(-1), make([]byte, 4)),
	} {
		require.EqualError(t, err, want)
	}
	for _, typ := range []ggml.Type{ggml.I8, ggml.I32, ggml.F64, ggml.Q8_1, ggml.Q8_K, ggml.Type(5), ggml.Type(1 << 20)} {
		require.ErrorContains(t, ggml.Quantize(nil, typ, x, ggml.QuantizeOptions{RowLen: 32}), fmt.Sprintf("quantize to %v: there is no conversion to this type", typ))
	}
	require.NoError(t, ggml.Quantize(nil, ggml.Q4_0, nil, ggml.QuantizeOptions{RowLen: 32}))
	require.NoError(t, ggml.Quantize(nil, ggml.Q4_0, nil, ggml.QuantizeOptions{}))
	require.NoError(t, ggml.Dequantize(nil, ggml.Q4_0, nil))
}

func TestEveryFloat16(t *testing.T) {
	all := make([]ggml.Float16, 1<<16)
	for i := range all {
		all[i] = ggml.Float16(i)
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&all[0])), 2*len(all))
	library, brain := make([]float32, len(all)), make([]float32, len(all))
	require.NoError(t, ggml.Dequantize(library, ggml.F16, bytes))
	require.NoError(t, ggml.Dequantize(brain, ggml.BF16, bytes))
	for i, h := range all {
		if f := h.Float32(); f == f {
			require.Equal(t, math.Float32bits(library[i]), math.Float32bits(f), "%#x", i)
			require.Equal(t, h, ggml.ToFloat16(f), "%#x", i)
		} else {
			require.True(t, library[i] != library[i], "%#x", i)
			require.NotEqual(t, f, ggml.ToFloat16(f).Float32())
		}
		b := ggml.BFloat16(i)
		if f := b.Float32(); f == f {
			require.Equal(t, math.Float32bits(brain[i]), math.Float32bits(f), "%#x", i)
			require.Equal(t, b, ggml.ToBFloat16(f), "%#x", i)
		} else {
			require.True(t, brain[i] != brain[i], "%#x", i)
			f := ggml.ToBFloat16(f).Float32()
			require.True(t, f != f)
		}
	}
}

func TestRoundingToFloat16(t *testing.T) {
	check := func(t require.TestingT, x float32) {
		require.Equal(t, refmath.Float32ToF16(x), uint16(ggml.ToFloat16(x)), "%x", x)
		for typ, want := range map[ggml.Type]uint16{ggml.F16: uint16(ggml.ToFloat16(x)), ggml.BF16: uint16(ggml.ToBFloat16(x))} {
			if x-x != 0 {
				continue // ggml accepts only finite values
			}
			data := make([]byte, 2)
			err := ggml.Quantize(data, typ, []float32{x}, ggml.QuantizeOptions{RowLen: 1})
			require.Equal(t, want, binary.LittleEndian.Uint16(data), "%x", x)
			if infinite := want&0x7fff == 0x7c00 && typ == ggml.F16 || want&0x7fff == 0x7f80 && typ == ggml.BF16; infinite {
				require.ErrorContains(t, err, "which is too large for "+typ.String())
			} else {
				require.NoError(t, err, "%x", x)
			}
		}
	}
	for _, x := range []float32{65504, 65519.99, 65520, 1e10, 5.9604645e-8, 2.9802322e-8, 2.98024e-8, 6.1035156e-5, 6.1e-5, 1e-30, 0,
		float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32} {
		check(t, x)
		check(t, -x)
	}
	rapid.Check(t, func(t *rapid.T) {
		exponent := rapid.Uint32Range(0, 254).Draw(t, "exponent")
		check(t, math.Float32frombits(exponent<<23|rapid.Uint32Range(0, 1<<23-1).Draw(t, "mantissa")))
	})
}

// Quantising any finite values returns; values of moderate size return without an error.
func TestQuantizeAnyFiniteValues(t *testing.T) {
	types := []ggml.Type{ggml.Q4_0, ggml.Q4_1, ggml.Q5_0, ggml.Q5_1, ggml.Q8_0, ggml.Q2_K, ggml.Q3_K, ggml.Q4_K, ggml.Q5_K, ggml.Q6_K,
		ggml.IQ4NL, ggml.IQ4XS, ggml.IQ3S, ggml.IQ3XXS, ggml.TQ1_0, ggml.TQ2_0, ggml.MXFP4, ggml.NVFP4, ggml.Q1_0, ggml.Q2_0}
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom(types).Draw(t, "type")
		scale := rapid.SampledFrom([]float32{0, 1e-45, 1e-38, 1e-20, 1, 6e4, 7e4, 1e20, 3e38}).Draw(t, "scale")
		src := rapid.SliceOfN(rapid.Float32Range(-1, 1), 256, 256).Draw(t, "src")
		for i := range src {
			src[i] *= scale
		}
		err := ggml.Quantize(make([]byte, typ.RowSize(256)), typ, src, ggml.QuantizeOptions{RowLen: 256, Importance: optest.Ones(256)})
		if scale <= 1 || scale <= 6e4 && typ != ggml.NVFP4 { // most scales are F16, with maximum 65504
			require.NoError(t, err)
		}
	})
}

// Tables can be freed while other goroutines quantise. It comes after the tests of all types, since some tables take seconds
// to make again.
func TestQuantizeTables(t *testing.T) {
	require.NoError(t, ggml.IQ4XS.PrepareQuantize())
	require.ErrorContains(t, ggml.I32.PrepareQuantize(), "there is no conversion to this type")
	want := quantized(t, ggml.IQ4XS, optest.Normal(1, 256), 256)
	var all sync.WaitGroup
	for range 4 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				got := make([]byte, len(want))
				if err := ggml.Quantize(got, ggml.IQ4XS, optest.Normal(1, 256), ggml.QuantizeOptions{}); err != nil || string(got) != string(want) {
					t.Errorf("quantised to something else: %v", err)
				}
				ggml.FreeQuantizeTables()
			}
		}()
	}
	all.Wait()
}
