// Matrix products with a weight of any type, exact to F32: a tile of the
// weight is converted into scratch memory of the thread, and a BLAS library
// multiplies it. Each thread of the CPU backend calls it on its own part of
// the result, so no second pool of threads is at work.
#ifndef GOGGML_TILED_H
#define GOGGML_TILED_H

#include "ops.h"

// Names the BLAS library that is in use, or NULL when there is none.
const char *goggml_tiled_library(void);

// The dimensions 2 and 3 of both operands are equal: they count matrices.
// w [k, m] of any type, x [k, n] → [m, n]
goggml_tensor goggml_op_tiled_mul_mat(goggml_a arena, goggml_t w, goggml_t x);
// w [k, m] of any type, y [m, n] → [k, n]: the gradient of x
goggml_tensor goggml_op_tiled_mul_mat_x(goggml_a arena, goggml_t w, goggml_t y);
// x [k, n], y [m, n] → [k, m]: the gradient of w
goggml_tensor goggml_op_tiled_mul_mat_w(goggml_a arena, goggml_t x, goggml_t y);

#endif
