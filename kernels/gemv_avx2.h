// Dot products of quantised rows with AVX2. ggml's multiply a row with one column; these unpack it once for all.
#ifndef KERN_GEMV_AVX2_H
#define KERN_GEMV_AVX2_H

#include "gemv_kernel.h"

// Returns the kernel of a type; NULL for other types, and on other processors. The product with a column does not depend
// on the other columns.
const struct kern_gemv_kernel *kern_avx2_of(enum ggml_type type);

// Of types with super-blocks.
extern const struct kern_gemv_kernel kern_avx2_q4_k, kern_avx2_q5_k, kern_avx2_q6_k;

#endif
