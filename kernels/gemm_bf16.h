// Micro-kernels of products in BF16 with sums in F32, for operands that the caller packs. Their files are named as in BLIS:
// the instructions, the type, and the rows and columns that stay in registers.
#ifndef KERN_GEMM_BF16_H
#define KERN_GEMM_BF16_H

#include <stdbool.h>
#include <stdint.h>

// C [m, n] = A · B, or += with accumulate, in column-major order. Elements of A and B are pairs of depths in BF16. A has a
// row of lda elements for each pair, column j of B begins at j · ldb. Rows and columns are readable up to multiples of 16,
// and pairs are zeros up to a multiple of 16.
struct kern_gemm_bf16 {
	int64_t m, n, pairs, lda, ldb, ldc;
	bool accumulate;
};

// Reports whether the processor has a micro-kernel that is faster than F32.
bool kern_has_gemm_bf16(void);
void kern_gemm_bf16(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c);

void kern_gemm_amxbf16_32x32(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c);
void kern_gemm_avx512bf16_64x4(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c);

#endif
