#if defined(__x86_64__)

#include "gemm_ymm_i8.h"

// Returns sums + Σ a·b over quads. vpmaddubsw adds two products in 16 bits and would saturate with the biased a: so
// the magnitudes of a, up to 127, multiply b with the signs of both, up to 2·127² < 2¹⁵.
KERN_INLINE __m256i kern_add_quads(__m256i sums, __m256i a, __m256i magnitudes, __m256i b) {
	__m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_sign_epi8(b, a));
	return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

// Sums are variables of their own, since GCC keeps elements of arrays in memory.
#define KERN_EACH_COLUMN(X) X(0) X(1) X(2) X(3)

// Rows from row, and columns from column, of the packed blocks.
KERN_INLINE void kern_multiply(int64_t quads, const struct kern_panel_a *a, const struct kern_panel_b *b, int row, int column,
		float *c, int64_t ldc, bool accumulate) {
#define KERN_BEGIN(j) __m256i lower##j = _mm256_setzero_si256(), upper##j = lower##j;
	KERN_EACH_COLUMN(KERN_BEGIN)
	const __m256i bias = _mm256_set1_epi8((char)KERN_BIAS);
	for (int64_t i = 0; i < quads; i++) {
		__m256i first = _mm256_xor_si256(_mm256_load_si256((const void *)a->q[i][row]), bias);
		__m256i second = _mm256_xor_si256(_mm256_load_si256((const void *)a->q[i][row + KERN_VECTOR]), bias), four;
		__m256i first_abs = _mm256_abs_epi8(first), second_abs = _mm256_abs_epi8(second);
#define KERN_ADD(j) \
		four = _mm256_set1_epi32(*(const int *)b->q[i][column + j]); \
		lower##j = kern_add_quads(lower##j, first, first_abs, four); \
		upper##j = kern_add_quads(upper##j, second, second_abs, four);
		KERN_EACH_COLUMN(KERN_ADD)
	}
	__m256 lower_scale = _mm256_loadu_ps(a->scale + row), upper_scale = _mm256_loadu_ps(a->scale + row + KERN_VECTOR);
	c += column * ldc + row;
#define KERN_END(j) kern_update_column(c + j * ldc, lower##j, upper##j, lower_scale, upper_scale, b->scale[column + j], accumulate);
	KERN_EACH_COLUMN(KERN_END)
}

KERN_GEMM_YMM_I8(kern_gemm_avx2_i8_16x4, 4)

#endif
