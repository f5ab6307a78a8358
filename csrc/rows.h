// Sums of rows of matrices as they lie in memory, in F32 or BF16.
#ifndef GOGGML_ROWS_H
#define GOGGML_ROWS_H

#include "guard.h"

// Tells whether rows can have the type.
bool goggml_has_rows(enum ggml_type type);
// Adds to y the first n elements of r rows, which are a stride of bytes apart, each times its factor.
void goggml_add_rows(float *y, enum ggml_type type, const void *rows, size_t stride, const float *factors, int64_t r, int64_t n);

#endif
