// Low-rank products B·H, for B [m, r] in F32, F16 or BF16 and H [r, n] in F32 or BF16.
//
// B is packed in panels of KERN_PANEL rows, as GEMM libraries pack an operand: the columns of a panel lie one after the
// other, and the last panel has the rows that are left. So few columns of H read B in one sweep, which the hardware
// prefetcher follows, and a panel is a matrix in column-major order.
#ifndef KERN_LOW_RANK_H
#define KERN_LOW_RANK_H

#include "tile.h"

enum { KERN_PANEL = 64 };

// Adds rows [m0, m1) of columns [n0, n1) of B·H to an accumulator by the GEMM library. An H in F32 is rounded to a type
// first; F32 leaves it as it is.
void kern_accumulate_low_rank(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
	const struct kern_accumulator *acc, int64_t m0, int64_t m1, int64_t n0, int64_t n1);

// Adds rows [m0, m1) of B·H, for an H in F32, to Y, whose columns are ldy elements apart, panel by panel. m0 begins one.
void kern_add_panels(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
	float *y, int64_t ldy, int64_t m0, int64_t m1);

#endif
