// Products of matrices by a library that is found at run time: oneDNN, or one
// with the CBLAS interface such as OpenBLAS. Neither is needed to build.
#ifndef GOGGML_BLAS_H
#define GOGGML_BLAS_H

#include "check.h"

#include <stdbool.h>
#include <stdint.h>

// out [n, o] = a [n, r] · b [r, o] in rows, or out += with add. The strides
// lda, ldb, ldo are those of the rows as they lie in memory; a is stored as
// [r, n] with trans_a, b as [o, r] with trans_b. a and b are F32, or both BF16;
// out is F32.
struct goggml_gemm {
	bool bf16, trans_a, trans_b, add;
	int64_t n, o, r, lda, ldb, ldo;
};

// Describes the library in use, or NULL when there is none.
const char *goggml_blas_name(void);
// Tells whether BF16 can be multiplied, by instructions made for that.
bool goggml_blas_bf16(void);
// Tells whether that is faster than F32.
bool goggml_blas_fast_bf16(void);
// Tells whether F16 can be multiplied, by instructions made for that.
bool goggml_blas_f16(void);

// Computes on the calling thread alone. The caller has made sure that there is
// a library, and checked goggml_blas_bf16.
void goggml_multiply(const struct goggml_gemm *g, const void *a, const void *b, float *out);

// The same in F16, which all operands are, and sums too. The caller has checked goggml_blas_f16.
void goggml_multiply_f16(const struct goggml_gemm *g, const uint16_t *a, const uint16_t *b, uint16_t *out);

// Memory of the calling thread that lives as long as it does: what the last
// call with the same use gave, if that was large enough.
enum goggml_use { GOGGML_TILE, GOGGML_SUM, GOGGML_ROW, GOGGML_SCRATCHPAD, GOGGML_COLUMNS, GOGGML_FACTORS, GOGGML_PRODUCT, GOGGML_USES };
void *goggml_scratch(enum goggml_use use, size_t bytes);

#endif
