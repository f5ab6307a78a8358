// Parts of micro-kernels whose registers have 256 bits: a column takes two of them, for KERN_VECTOR rows each.
#ifndef KERN_GEMM_YMM_I8_H
#define KERN_GEMM_YMM_I8_H

#include <immintrin.h>

#include "gemm_ukr_i8.h"

#define KERN_YMM __attribute__((target("avx2,fma")))
#define KERN_INLINE KERN_YMM static inline __attribute__((always_inline))

enum { KERN_VECTOR = 8 }; // rows in a register

// Adds a column's sums, times the scales of its rows and its own, to C, or stores them there.
KERN_INLINE void kern_update_column(float *c, __m256i lower, __m256i upper, __m256 lower_scale, __m256 upper_scale, float scale, bool accumulate) {
	__m256 first = _mm256_cvtepi32_ps(lower), second = _mm256_cvtepi32_ps(upper), column = _mm256_set1_ps(scale);
	lower_scale = _mm256_mul_ps(lower_scale, column), upper_scale = _mm256_mul_ps(upper_scale, column);
	_mm256_storeu_ps(c, accumulate ? _mm256_fmadd_ps(first, lower_scale, _mm256_loadu_ps(c)) : _mm256_mul_ps(first, lower_scale));
	c += KERN_VECTOR;
	_mm256_storeu_ps(c, accumulate ? _mm256_fmadd_ps(second, upper_scale, _mm256_loadu_ps(c)) : _mm256_mul_ps(second, upper_scale));
}

// The micro-kernel of a function kern_multiply for 2·KERN_VECTOR rows and some columns.
#define KERN_GEMM_YMM_I8(name, columns) \
	KERN_YMM void name(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, float *c, int64_t ldc, bool accumulate) { \
		for (int row = 0; row < KERN_MR; row += 2 * KERN_VECTOR) { \
			for (int column = 0; column < KERN_NR; column += (columns)) { \
				kern_multiply(quads, a, b, row, column, c, ldc, accumulate); \
			} \
		} \
	}

#endif
