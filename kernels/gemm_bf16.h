// Micro-kernel of products in BF16 with sums in F32, for operands that the caller packs. The file is named as in BLIS:
// the instructions, the type, and the rows and columns that stay in registers.
#ifndef KERN_GEMM_BF16_H
#define KERN_GEMM_BF16_H

#include <stdbool.h>
#include <stdint.h>

// C [m, n] = A · B, or += with accumulate, in column-major order. Elements of A and B are pairs of depths in BF16. A has a
// row of lda elements, at least m rounded up to 16, for each pair. Column j of B begins at j · b_column, and its pairs
// are b_pair apart.
struct kern_gemm_bf16 {
	int64_t m, n, pairs, lda, b_column, b_pair, ldc;
	bool accumulate;
};

// Reports whether the processor has the instructions, and they are faster than F32's.
bool kern_has_avx512bf16(void);
void kern_gemm_avx512bf16_64x4(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c);

#endif
