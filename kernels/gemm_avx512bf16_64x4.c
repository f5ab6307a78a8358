#include "gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define KERN_BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))

enum { KERN_VECTOR = 16, KERN_MR = 4 * KERN_VECTOR, KERN_NR = 4 };

// Sums are variables of their own, and the instruction is written out: GCC moves elements of arrays, and the results of
// the intrinsic, through memory. j is a column and i a vector of rows.
#define KERN_BEGIN(j, i) __m512 c##j##i = g->accumulate ? _mm512_maskz_loadu_ps(mask, c + j * g->ldc + i * KERN_VECTOR) : _mm512_setzero_ps();
#define KERN_LOAD(j, i) __m512i a##i = _mm512_loadu_si512(a + i * KERN_VECTOR);
#define KERN_DOT(j, i) __asm__("vdpbf16ps %2, %1, %0" : "+v"(c##j##i) : "v"(a##i), "v"(both));
#define KERN_END(j, i) _mm512_mask_storeu_ps(c + j * g->ldc + i * KERN_VECTOR, mask, c##j##i);

#define KERN_1_VECTOR(X, j) X(j, 0)
#define KERN_4_VECTORS(X, j) X(j, 0) X(j, 1) X(j, 2) X(j, 3)
#define KERN_1_COLUMN(X, V) X(V, 0)
#define KERN_4_COLUMNS(X, V) X(V, 0) X(V, 1) X(V, 2) X(V, 3)
#define KERN_BEGIN_COLUMN(V, j) V(KERN_BEGIN, j)
#define KERN_DOT_COLUMN(V, j) { __m512i both = _mm512_set1_epi32((int)b[j * g->ldb]); V(KERN_DOT, j) }
#define KERN_END_COLUMN(V, j) V(KERN_END, j)

// The product of vectors of rows and a number of columns; the mask says which rows of a vector count.
#define KERN_MICRO(name, VECTORS, COLUMNS) \
	KERN_BF16 static void name(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c, __mmask16 mask) { \
		COLUMNS(KERN_BEGIN_COLUMN, VECTORS) \
		for (int64_t p = 0; p < g->pairs; p++, a += g->lda, b++) { \
			VECTORS(KERN_LOAD, 0) \
			COLUMNS(KERN_DOT_COLUMN, VECTORS) \
		} \
		COLUMNS(KERN_END_COLUMN, VECTORS) \
	}

KERN_MICRO(kern_micro_64x4, KERN_4_VECTORS, KERN_4_COLUMNS)
KERN_MICRO(kern_micro_64x1, KERN_4_VECTORS, KERN_1_COLUMN)
KERN_MICRO(kern_micro_16x4, KERN_1_VECTOR, KERN_4_COLUMNS)
KERN_MICRO(kern_micro_16x1, KERN_1_VECTOR, KERN_1_COLUMN)

KERN_BF16 void kern_gemm_avx512bf16_64x4(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c) {
	for (int64_t i = 0, rows; i < g->m; i += rows) {
		bool large = g->m - i >= KERN_MR;
		rows = large ? KERN_MR : KERN_VECTOR;
		__mmask16 mask = g->m - i >= KERN_VECTOR ? 0xffff : (__mmask16)((1u << (g->m - i)) - 1);
		for (int64_t j = 0, columns; j < g->n; j += columns) {
			columns = g->n - j >= KERN_NR ? KERN_NR : 1;
			(large ? columns > 1 ? kern_micro_64x4 : kern_micro_64x1 : columns > 1 ? kern_micro_16x4 : kern_micro_16x1)(
				g, a + i, b + j * g->ldb, c + j * g->ldc + i, mask);
		}
	}
}

#endif
