package refmath

import "math"

// F16ToFloat32 converts an IEEE half to float32, exactly. NaNs keep sign and
// payload and become quiet.
func F16ToFloat32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent, mantissa := uint32(h>>10)&0x1f, uint32(h)&0x3ff
	switch {
	case exponent == 0: // zero or subnormal: mantissa · 2⁻²⁴
		v := float32(mantissa) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(v))
	case exponent == 0x1f && mantissa != 0:
		return math.Float32frombits(sign | 0x7fc00000 | mantissa<<13)
	case exponent == 0x1f:
		return math.Float32frombits(sign | 0x7f800000)
	}
	return math.Float32frombits(sign | (exponent+127-15)<<23 | mantissa<<13)
}

// Float32ToF16 converts to the nearest IEEE half, ties to even; overflow gives
// infinity. NaN becomes the quiet NaN 0x7e00 with the sign kept, as in ggml's
// portable conversion; hardware conversions keep part of the payload.
func Float32ToF16(f float32) uint16 {
	bits := math.Float32bits(f)
	sign := uint16(bits>>16) & 0x8000
	abs := bits & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return sign | 0x7e00
	case abs >= 0x477ff000: // 65520, halfway from the largest half to 2¹⁶
		return sign | 0x7c00
	case abs < 0x38800000: // below 2⁻¹⁴: a multiple of 2⁻²⁴
		units := math.RoundToEven(float64(math.Float32frombits(abs)) * (1 << 24))
		return sign | uint16(units)
	}
	// A carry out of the mantissa moves into the exponent, as it should.
	rounded := abs + 0xfff + (abs>>13)&1
	return sign | uint16((rounded-(127-15)<<23)>>13)
}

// BF16ToFloat32 converts a bfloat16 to float32, exactly.
func BF16ToFloat32(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// Float32ToBF16 converts to the nearest bfloat16, ties to even; NaN is made
// quiet and keeps its sign and upper payload.
func Float32ToBF16(f float32) uint16 {
	bits := math.Float32bits(f)
	if bits&0x7fffffff > 0x7f800000 {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + (bits>>16)&1) >> 16)
}

// RoundF16 rounds every element to the nearest half.
func RoundF16(a Tensor) Tensor {
	return Map(a, func(x float64) float64 { return float64(F16ToFloat32(Float32ToF16(float32(x)))) })
}

// RoundF8E4M3 rounds every element to the nearest number of 4 bits of exponent and 3 of mantissa, ties to even, and
// larger ones to the largest.
func RoundF8E4M3(a Tensor) Tensor {
	return Map(a, func(x float64) float64 {
		best, value := byte(0), make([]float32, 1)
		for code := byte(0); code < 0x7f; code++ {
			readF8E4M3(value, []byte{code})
			was := make([]float32, 1)
			readF8E4M3(was, []byte{best})
			d, least := math.Abs(math.Abs(x)-float64(value[0])), math.Abs(math.Abs(x)-float64(was[0]))
			if d < least || d == least && code%2 == 0 {
				best = code
			}
		}
		readF8E4M3(value, []byte{best})
		return math.Copysign(float64(value[0]), x)
	})
}

// RoundBF16 rounds every element to the nearest bfloat16.
func RoundBF16(a Tensor) Tensor {
	return Map(a, func(x float64) float64 { return float64(BF16ToFloat32(Float32ToBF16(float32(x)))) })
}
