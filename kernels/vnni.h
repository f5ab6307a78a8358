// Shared by the products with AVX512-VNNI.
#ifndef KERN_VNNI_H
#define KERN_VNNI_H

#include <immintrin.h>

#include "vector.h"

#define KERN_VNNI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,fma,f16c")))
#define KERN_VNNI_INLINE KERN_VNNI static inline __attribute__((always_inline))

enum { KERN_REGISTER = 64, KERN_SUMS = 4 }; // sums of products that stay in registers

// Distance of software prefetch in bytes: the hardware prefetcher stops at each page.
enum { KERN_PREFETCH_DISTANCE = 8192 };

// Prefetches what follows a part of a row in the order of memory.
KERN_VNNI_INLINE void kern_prefetch_ahead(const char *part, size_t size) {
	kern_prefetch(part + KERN_PREFETCH_DISTANCE, size);
}

// Returns the sums of all lanes of each register.
KERN_VNNI_INLINE __m128 kern_sum_registers(const __m512 sums[KERN_SUMS]) {
	__m128 t[KERN_SUMS];
#pragma GCC unroll 4
	for (int i = 0; i < KERN_SUMS; i++) {
		__m256 half = _mm256_add_ps(_mm512_castps512_ps256(sums[i]), _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(sums[i]), 1)));
		t[i] = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
	}
	__m128 first = _mm_add_ps(_mm_unpacklo_ps(t[0], t[1]), _mm_unpackhi_ps(t[0], t[1]));
	__m128 second = _mm_add_ps(_mm_unpacklo_ps(t[2], t[3]), _mm_unpackhi_ps(t[2], t[3]));
	return _mm_add_ps(_mm_movelh_ps(first, second), _mm_movehl_ps(second, first));
}

// Defines kern_multiply_TYPE of struct kern_vnni, by kern_dots_TYPE(sums, k, row, columns, stride, n), which multiplies a row
// with n columns. Four sums at a time are added up across registers: of four rows with one column, or of a row with up to four.
#define KERN_VNNI_MULTIPLY(type) \
	KERN_VNNI_INLINE void kern_multiply_row_##type(float *y, int64_t ldy, int64_t k, const char *row, const char *columns, size_t stride, const int n) { \
		__m512 sums[KERN_SUMS] = {0}; \
		float whole[KERN_SUMS]; \
		kern_dots_##type(sums, k, row, columns, stride, n); \
		_mm_storeu_ps(whole, kern_sum_registers(sums)); \
		for (int j = 0; j < n; j++) { y[j * ldy] = whole[j]; } \
	} \
	KERN_VNNI static void kern_multiply_##type(float *y, int64_t ldy, int64_t k, int64_t m, \
			const char *w, size_t row_size, const char *columns, size_t stride, int64_t n) { \
		for (; n == 1 && m >= KERN_SUMS; m -= KERN_SUMS, y += KERN_SUMS) { \
			__m512 sums[KERN_SUMS] = {0}; \
			_Pragma("GCC unroll 4") \
			for (int i = 0; i < KERN_SUMS; i++, w += row_size) { kern_dots_##type(sums + i, k, w, columns, stride, 1); } \
			_mm_storeu_ps(y, kern_sum_registers(sums)); \
		} \
		for (; m > 0; m--, y++, w += row_size) { \
			for (int64_t j = 0; j < n; j += KERN_SUMS) { \
				float *to = y + j * ldy; \
				const char *some = columns + j * stride; \
				switch (n - j) { \
				case 1: kern_multiply_row_##type(to, ldy, k, w, some, stride, 1); break; \
				case 2: kern_multiply_row_##type(to, ldy, k, w, some, stride, 2); break; \
				case 3: kern_multiply_row_##type(to, ldy, k, w, some, stride, 3); break; \
				default: kern_multiply_row_##type(to, ldy, k, w, some, stride, KERN_SUMS); \
				} \
			} \
		} \
	}

#endif
