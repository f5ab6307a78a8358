#include "gemm_ukr_i8.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERN_AVXVNNI __attribute__((target("avx2,fma")))
#define KERN_INLINE KERN_AVXVNNI static inline __attribute__((always_inline))

enum { KERN_VECTOR = 8, KERN_COLUMNS = 6 }; // rows in a register, columns in registers

KERN_INLINE void kern_update(float *c, __m256i sums, __m256 scale, bool accumulate) {
	__m256 values = _mm256_cvtepi32_ps(sums);
	_mm256_storeu_ps(c, accumulate ? _mm256_fmadd_ps(values, scale, _mm256_loadu_ps(c)) : _mm256_mul_ps(values, scale));
}

// As for AVX512-VNNI, sums are variables of their own and the instruction is written out.
#define KERN_EACH_COLUMN(X) X(0) X(1) X(2) X(3) X(4) X(5)

// Rows from row, and columns from column, of the packed blocks.
KERN_INLINE void kern_multiply(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, int row, int column,
		float *c, int64_t ldc, bool accumulate) {
#define KERN_BEGIN(j) __m256i lower##j = _mm256_set1_epi32(b->correction[column + j]), upper##j = lower##j;
	KERN_EACH_COLUMN(KERN_BEGIN)
	for (int64_t i = 0; i < quads; i++) {
		__m256i first = _mm256_load_si256((const void *)a->q[i][row]), second = _mm256_load_si256((const void *)a->q[i][row + KERN_VECTOR]), four;
#define KERN_ADD(j) \
		four = _mm256_set1_epi32(*(const int *)b->q[i][column + j]); \
		__asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(lower##j) : "x"(first), "x"(four)); \
		__asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(upper##j) : "x"(second), "x"(four));
		KERN_EACH_COLUMN(KERN_ADD)
	}
	__m256 lower_scale = _mm256_loadu_ps(a->scale + row), upper_scale = _mm256_loadu_ps(a->scale + row + KERN_VECTOR), scale;
	c += column * ldc + row;
#define KERN_END(j) \
	scale = _mm256_set1_ps(b->scale[column + j]); \
	kern_update(c + j * ldc, lower##j, _mm256_mul_ps(lower_scale, scale), accumulate); \
	kern_update(c + j * ldc + KERN_VECTOR, upper##j, _mm256_mul_ps(upper_scale, scale), accumulate);
	KERN_EACH_COLUMN(KERN_END)
}

KERN_AVXVNNI void kern_gemm_avxvnni_i8_16x6(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b,
		float *c, int64_t ldc, bool accumulate) {
	for (int row = 0; row < KERN_MR; row += 2 * KERN_VECTOR) {
		for (int column = 0; column < KERN_NR; column += KERN_COLUMNS) {
			kern_multiply(quads, a, b, row, column, c, ldc, accumulate);
		}
	}
}

#endif
