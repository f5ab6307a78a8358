// The softmax of causal attention on the CPU. The library's own masks, scales and finds the largest element without
// vector instructions.
#ifndef GOGGML_SOFTMAX_H
#define GOGGML_SOFTMAX_H

#include "ops.h"

// softmax(scale · a) of each row, in place; row i of a matrix ends with element first + i, and has zeros behind it.
goggml_tensor goggml_op_causal_soft_max(goggml_a arena, goggml_t a, float scale, int32_t first);

#endif
