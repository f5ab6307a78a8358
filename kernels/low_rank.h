// Low-rank products B·H, for B [m, r] in F32, F16 or BF16 and H [r, n] in F32 or BF16.
//
// B is packed in panels of KERN_PANEL rows, as GEMM libraries pack an operand: the columns of a
// panel are stored one after another, and the last panel has the remaining rows. For few columns of
// H, B is then read in one sweep, which the hardware prefetcher follows; and each panel is a
// column-major matrix.
#ifndef KERN_LOW_RANK_H
#define KERN_LOW_RANK_H

#include "tile.h"

enum { KERN_PANEL = 64 };

// Adds rows [m0, m1) of columns [n0, n1) of B·H to an accumulator by the GEMM library. An F32 H is
// first rounded to h_type; F32 leaves it unchanged.
void kern_accumulate_low_rank(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
	const struct kern_accumulator *acc, int64_t m0, int64_t m1, int64_t n0, int64_t n1);

// Adds rows [m0, m1) of B·H, for an F32 H, to Y, whose columns are ldy elements apart, panel by
// panel. m0 is the first row of a panel. Zeros at the ends of a column of H cost nothing.
void kern_add_panels(const struct ggml_tensor *b, const struct ggml_tensor *h, enum ggml_type h_type,
	float *y, int64_t ldy, int64_t m0, int64_t m1);

// Reports whether at least half of an F32 H are zeros that kern_add_panels skips.
bool kern_is_sparse(const struct ggml_tensor *h);

#endif
