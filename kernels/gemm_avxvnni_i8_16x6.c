#if defined(__x86_64__)

#include "gemm_ymm_i8.h"

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
	__m256 lower_scale = _mm256_loadu_ps(a->scale + row), upper_scale = _mm256_loadu_ps(a->scale + row + KERN_VECTOR);
	c += column * ldc + row;
#define KERN_END(j) kern_update_column(c + j * ldc, lower##j, upper##j, lower_scale, upper_scale, b->scale[column + j], accumulate);
	KERN_EACH_COLUMN(KERN_END)
}

KERN_GEMM_YMM_I8(kern_gemm_avxvnni_i8_16x6, 6)

#endif
