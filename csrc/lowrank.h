// The thin products of low-rank adapters on the CPU, which the library's own
// kernels multiply slowly because their sums are short.
#ifndef GOGGML_LOWRANK_H
#define GOGGML_LOWRANK_H

#include "ops.h"

// y [Σ m, n] += b · h, in place, for pairs of b [m, r] and h [r, n] with rows at any
// distance. Each pair is for the rows of y after those of the pair before.
goggml_tensor goggml_op_add_low_rank(goggml_a arena, goggml_t y, struct ggml_tensor **pairs, int n);

#endif
