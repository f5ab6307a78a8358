// Shared by all kernels that use the GEMM library: tiles of weights in a type that it takes, and
// accumulators.
#ifndef KERN_TILE_H
#define KERN_TILE_H

#include "kern.h"

// Accumulator of a chunk: C [m, n] with a leading dimension, or its transpose.
struct kern_accumulator {
	float *c;
	int64_t ldc;
	bool transposed;
};

// Returns columns [m0, m1) of a weight, for depths [k0, k1), as a type; *ld is their leading
// dimension. They lie in the weight, or in scratch memory until the next call.
const void *kern_weight_tile(const struct ggml_tensor *w, int64_t matrix, enum ggml_type type,
	int64_t k0, int64_t k1, int64_t m0, int64_t m1, int64_t *ld);

// Return the conversions of a type to F32, and of F32 to F16 or BF16.
ggml_to_float_t kern_to_f32(enum ggml_type type);
void kern_convert_from_f32(enum ggml_type type, const float *from, void *to, int64_t n);

#endif
