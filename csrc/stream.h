// Products of matrices with few columns, as in generation: they take as long as the matrices take to be read.
#ifndef GOGGML_STREAM_H
#define GOGGML_STREAM_H

#include "ops.h"

// Takes the routines of the CPU plugin; false when it does not show them. To be called before all else, once.
bool goggml_stream_open(ggml_backend_reg_t cpu);
// Tells whether there are routines for matrices of a type.
bool goggml_can_stream(enum ggml_type type);
// Tells whether a row of a type is multiplied by several columns at once.
bool goggml_streams_columns(enum ggml_type type);
// A matrix w [k, m] of such a type, x [k, n] in F32, and more matrices → [Σ m, n]. The dimensions 2 and 3 are equal: they count matrices.
goggml_tensor goggml_op_stream_mul_mat(goggml_a arena, struct ggml_tensor **operands, int n);

#endif
