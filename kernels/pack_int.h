// Operands of a GEMM in integers, packed in panels as in BLIS.
//
// The depth is divided into blocks of up to KERN_KB, and each row or column of a block is rounded with a scale of its
// own. Sums of a block are exact in 32 bits:
//
//   - 8 bits: both operands are rotated by a Hadamard matrix H, which spreads an outlier over the block.
//     H·Hᵀ = h·I leaves the product as it is (arXiv 2404.00456). 256·127² is far below 2³¹.
//   - 16 bits: a row is scaled so that its elements fit, and its Euclidean norm is at most
//     KERN_NORM_I16. By the Cauchy–Schwarz inequality no sum of products reaches 2³¹, whatever the outliers.
#ifndef KERN_PACK_INT_H
#define KERN_PACK_INT_H

#include "kern.h"

#include <string.h>

// The depth of a block, and the rows and columns of a micro-tile.
enum { KERN_KB = 256, KERN_MR = 32, KERN_NR = 12 };

// The depths of a step, whose integers share 32 bits and whose products an instruction sums.
enum { KERN_STEP_I8 = 4, KERN_STEP_I16 = 2 };

// The steps of a tile of AMX.
enum { KERN_GROUP = 16 };

// KERN_MR rows of A in a block. An uneven panel is not rounded: its values are not finite, too small for a scale, or,
// for 8 bits, the largest one is above KERN_CREST times their root mean square, which would make an error above 2 %.
struct kern_panel_a {
	_Alignas(64) float scale[KERN_MR];
	bool uneven;
	_Alignas(64) uint32_t q[][KERN_MR]; // [steps]
};
#define KERN_CREST 8.0f

// KERN_NR columns of B in a block. The sums of a column begin with first.
struct kern_panel_b {
	_Alignas(64) float scale[KERN_NR];
	int32_t first[KERN_NR];
	bool uneven, tiles;
	_Alignas(64) uint32_t q[][KERN_NR]; // [steps]; with tiles, KERN_GROUP steps of a column follow each other
};

// Returns the index of a step of a column.
static inline int64_t kern_b_index(bool tiles, int64_t step, int64_t column) {
	return tiles ? (step / KERN_GROUP * KERN_NR + column) * KERN_GROUP + step % KERN_GROUP : step * KERN_NR + column;
}

static inline int64_t kern_panel_a_bytes(int64_t steps) { return (int64_t)sizeof(struct kern_panel_a) + steps * KERN_MR * 4; }
static inline int64_t kern_panel_b_bytes(int64_t steps) { return (int64_t)sizeof(struct kern_panel_b) + steps * KERN_NR * 4; }

// 8-bit values of A are biased by KERN_BIAS, since instructions multiply an unsigned by a signed operand.
enum { KERN_BIAS = 128 };

// The depth of a block is a multiple of this, the smallest Hadamard matrix; zeros follow the operands' depth.
enum { KERN_DEPTH_UNIT = 32 };
static inline int64_t kern_padded_depth(int64_t depth) { return kern_ceil_div(depth, KERN_DEPTH_UNIT) * KERN_DEPTH_UNIT; }

enum { KERN_NORM_I16 = 46300 }; // with the rounding of KERN_KB elements, (46,300 + 16/2)² < 2³¹

// Pack A [m, depth], m ≤ KERN_MR. Its rows lie side by side, and depths are ld elements apart; if transposed, the depths
// lie side by side, and rows are ld elements apart.
void kern_pack_a_i8(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel);
void kern_pack_a_i16(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel);
void kern_pack_a_transposed_i16(const float *a, int64_t ld, int64_t m, int64_t depth, struct kern_panel_a *panel);

// Returns A [m, depth] with KERN_MR rows side by side: itself, or a copy with zeros.
static inline const float *kern_whole_rows(const float *a, int64_t *ld, int64_t m, int64_t depth, float whole[KERN_KB * KERN_MR]) {
	if (m == KERN_MR) {
		return a;
	}
	for (int64_t i = 0; i < depth; i++) {
		memcpy(whole + i * KERN_MR, a + i * *ld, m * sizeof *a);
		memset(whole + i * KERN_MR + m, 0, (KERN_MR - m) * sizeof *a);
	}
	*ld = KERN_MR;
	return whole;
}

// Pack n ≤ KERN_NR columns, contiguous and ld elements apart, into a panel of zeros; in 8 bits with or without tiles.
void kern_pack_b_i8(const float *b, int64_t ld, int64_t n, int64_t depth, bool tiles, struct kern_panel_b *panel);
void kern_pack_b_i16(const float *b, int64_t ld, int64_t n, int64_t depth, struct kern_panel_b *panel);

#endif
