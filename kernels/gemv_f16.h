// Products of rows in F16 with a few columns. ggml's dot products convert a row, and a column, for each pair; four columns
// take as many instructions as four products. These convert each row once for four columns.
#ifndef KERN_GEMV_F16_H
#define KERN_GEMV_F16_H

#include "gemv_kernel.h"

// Returns the kernel for the processor; NULL without AVX2 and F16C. A product with one of several columns does not depend on
// the others.
const struct kern_gemv_kernel *kern_gemv_f16(void);

typedef void kern_multiply_f16(float *y, int64_t ldy, int64_t k, int64_t m, const char *rows, size_t row_size, const char *columns, size_t stride, int64_t n);
kern_multiply_f16 kern_multiply_f16_avx512, kern_multiply_f16_avx2;

#endif
