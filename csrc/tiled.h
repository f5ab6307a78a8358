// Matrix products with a weight of any type: a tile of the weight is converted
// into memory of the thread, to F32 or BF16 as the other operand is, and a
// library multiplies it. Each thread of the CPU backend computes tiles of the
// result, so no second pool of threads is at work. What a tile is depends on
// the shapes alone, and so do the results, to the bit.
#ifndef GOGGML_TILED_H
#define GOGGML_TILED_H

#include "blas.h"
#include "ops.h"

// The operands are pairs, whose products add up. The dimensions 2 and 3 of all
// are equal: they count matrices.
// w [k, m] of any type, x [k, n] → [m, n]
goggml_tensor goggml_op_tiled_mul_mat(goggml_a arena, struct ggml_tensor **pairs, int n);
// The same of one pair, and added b · h of further ones, b [m, r] and h [r, n]: each is for the rows of the result after
// those of the pair before. The rows of b and h can lie at any distance.
goggml_tensor goggml_op_tiled_low_rank(goggml_a arena, struct ggml_tensor **operands, int n);
// w [k, m] of any type, y [m, n] → [k, n]: the gradient of x
goggml_tensor goggml_op_tiled_mul_mat_x(goggml_a arena, struct ggml_tensor **pairs, int n);
// x [k, n], y [m, n] → [k, m]: the gradient of w
goggml_tensor goggml_op_tiled_mul_mat_w(goggml_a arena, goggml_t x, goggml_t y);
// The same, added to dw in place.
goggml_tensor goggml_op_add_tiled_mul_mat_w(goggml_a arena, goggml_t dw, goggml_t x, goggml_t y);

// Lets products with x be added up in F16, if the library can; false for an op that is none, or a gradient of w.
bool goggml_tiled_set_acc(struct ggml_tensor *t, enum ggml_prec prec);

#endif
