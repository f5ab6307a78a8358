// Turns the results of products, in vector registers where the processor has large ones.
#ifndef GOGGML_TRANSPOSE_H
#define GOGGML_TRANSPOSE_H

#include <stdint.h>

// Writes a [rows, columns], in rows without gaps, as [columns, rows] to rows at a distance in floats.
void goggml_transpose(const float *from, int64_t rows, int64_t columns, float *to, int64_t distance);

#endif
