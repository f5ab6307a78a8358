// Sums of scaled rows, for matrices too small for the GEMM library.
#ifndef KERN_AXPY_H
#define KERN_AXPY_H

#include <ggml.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Reports whether rows of the type need no conversion: F32 and BF16.
bool kern_axpy_takes(enum ggml_type type);
// y += Σ factors[i] · row i, for the first n elements of so many rows, which are a stride of bytes apart.
void kern_axpy_rows(float *y, enum ggml_type type, const void *rows, size_t stride, const float *factors, int64_t count, int64_t n);

#endif
