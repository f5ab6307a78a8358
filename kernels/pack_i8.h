// Operands of a GEMM in 8-bit integers, packed in panels as in BLIS.
//
// The depth is divided into blocks of up to KERN_KB. In a block both operands are rotated by a Hadamard matrix H: it
// spreads an outlier over the block, and H·Hᵀ = h·I leaves the product as it is (arXiv 2404.00456). Then each row or
// column of a block is rounded to 8 bits with a scale of its own, and sums of a block are exact in 32 bits.
#ifndef KERN_PACK_I8_H
#define KERN_PACK_I8_H

#include "kern.h"

// The depth of a block, the rows and columns of a micro-tile, and the consecutive depths that an instruction sums.
enum { KERN_KB = 256, KERN_MR = 32, KERN_NR = 12, KERN_QUAD = 4 };

// A block is not rounded if its values are too uneven: the largest one is above KERN_CREST times their root mean
// square, which would make an error above 2 %. The same holds for values that are not finite, or too small for a scale.
#define KERN_CREST 8.0f

// KERN_MR rows of A in a block. Values are biased by KERN_BIAS, since instructions multiply an unsigned by a signed
// operand.
enum { KERN_BIAS = 128 };
struct kern_panel_a {
	_Alignas(64) uint8_t q[KERN_KB / KERN_QUAD][KERN_MR][KERN_QUAD];
	float scale[KERN_MR];
	bool uneven; // not rounded
};

// KERN_NR columns of B in a block; correction is −KERN_BIAS times the sum of a column.
struct kern_panel_b {
	_Alignas(64) int8_t q[KERN_KB / KERN_QUAD][KERN_NR][KERN_QUAD];
	float scale[KERN_NR];
	int32_t correction[KERN_NR];
	bool uneven; // not rounded
};

// Returns the depth of a block with the zeros that follow the operands' depth: a multiple of KERN_DEPTH_UNIT, the
// smallest Hadamard matrix.
enum { KERN_DEPTH_UNIT = 32 };
static inline int64_t kern_padded_depth(int64_t depth) { return kern_ceil_div(depth, KERN_DEPTH_UNIT) * KERN_DEPTH_UNIT; }

// Packs A [m, depth], whose m ≤ KERN_MR rows lie side by side, ld elements from one depth to the next.
void kern_pack_a(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel);

// Packs n ≤ KERN_NR columns, contiguous and ld elements apart.
void kern_pack_b(const float *b, int64_t ld, int64_t n, int64_t depth, struct kern_panel_b *panel);

#endif
