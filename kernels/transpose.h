// Transposes results of GEMM, in registers if the processor has large ones.
#ifndef KERN_TRANSPOSE_H
#define KERN_TRANSPOSE_H

#include <stdint.h>

// Writes the transpose of a row-major rows × columns matrix without padding, with a leading
// dimension ld.
void kern_transpose(const float *from, int64_t rows, int64_t columns, float *to, int64_t ld);

#endif
