package ggml

import "math"

// FromFloat32s converts min(len(dst), len(src)) values, and returns that number. Floats are rounded
// to the nearest, ties to even; integers are truncated and clamped to their range, and NaN becomes
// 0.
//
// C: ggml_fp32_to_fp16_row, ggml_fp32_to_bf16_row, ggml_fp32_to_bf16_row_ref,
// ggml_cpu_fp32_to_fp32, ggml_cpu_fp32_to_i32, ggml_cpu_fp32_to_fp16, ggml_cpu_fp32_to_bf16.
func FromFloat32s[T float32 | Float16 | BFloat16 | int32](dst []T, src []float32) int {
	n := min(len(dst), len(src))
	src = src[:n]
	switch dst := any(dst[:n]).(type) {
	case []float32:
		copy(dst, src)
	case []Float16:
		for i, x := range src {
			dst[i] = ToFloat16(x)
		}
	case []BFloat16:
		for i, x := range src {
			dst[i] = ToBFloat16(x)
		}
	case []int32:
		for i, x := range src {
			dst[i] = toInt32(x)
		}
	}
	return n
}

func toInt32(x float32) int32 {
	switch {
	case x != x:
		return 0
	case x >= 1<<31:
		return math.MaxInt32
	case x < -1<<31:
		return math.MinInt32
	}
	return int32(x)
}

// ToFloat32s converts min(len(dst), len(src)) values without loss, and returns that number.
//
// C: ggml_fp16_to_fp32_row, ggml_bf16_to_fp32_row, ggml_cpu_fp16_to_fp32, ggml_cpu_bf16_to_fp32.
func ToFloat32s[T Float16 | BFloat16](dst []float32, src []T) int {
	n := min(len(dst), len(src))
	switch src := any(src[:n]).(type) {
	case []Float16:
		for i, x := range src {
			dst[i] = x.Float32()
		}
	case []BFloat16:
		for i, x := range src {
			dst[i] = x.Float32()
		}
	}
	return n
}
