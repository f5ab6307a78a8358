#include "gemm_ukr.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum { KERN_TILE = KERN_GROUP }; // rows of A in a tile

// Numbers of tiles, which GCC wants as text. Rows of C's tiles are its columns, since C is column-major: tiles of B come first in a
// product. Two groups of steps have sums of their own, since a product waits for the one before it in the same tile.
#define KERN_C0 0
#define KERN_C1 1
#define KERN_D0 2
#define KERN_D1 3
#define KERN_B0 4
#define KERN_B1 5
#define KERN_A0 6
#define KERN_A1 7

#if !defined(KERN_AMX) // gemm_amxint8_emulated.c defines it
#define KERN_AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512bw,avx512vl,fma")))

const struct kern_tile_config kern_gemm_amxint8_tiles = {
	.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {KERN_NR, KERN_NR, KERN_NR, KERN_NR, KERN_NR, KERN_NR, KERN_GROUP, KERN_GROUP},
};
#endif

// Adds the products of a group of steps.
#define KERN_ADD_GROUP(sums0, sums1, columns, p, q) \
	_tile_loadd(columns, q, KERN_GROUP * sizeof *(q)); \
	_tile_loadd(KERN_A0, p, KERN_MR * sizeof *(p)); \
	_tile_dpbsud(sums0, columns, KERN_A0); \
	_tile_loadd(KERN_A1, (p) + KERN_TILE, KERN_MR * sizeof *(p)); \
	_tile_dpbsud(sums1, columns, KERN_A1);

KERN_AMX void kern_gemm_amxint8_32x12(KERN_UKR_PARAMS) {
	_Alignas(64) int32_t sums[KERN_NR][KERN_MR], more[KERN_NR][KERN_MR];
	_tile_zero(KERN_C0);
	_tile_zero(KERN_C1);
	_tile_zero(KERN_D0);
	_tile_zero(KERN_D1);
	const uint32_t *p = a->q[0], *q = b->q[0];
	for (int64_t i = 0; i < steps; i += 2 * KERN_GROUP, p += 2 * KERN_GROUP * KERN_MR, q += 2 * KERN_GROUP * KERN_NR) {
		KERN_ADD_GROUP(KERN_C0, KERN_C1, KERN_B0, p, q)
		if (i + KERN_GROUP < steps) {
			KERN_ADD_GROUP(KERN_D0, KERN_D1, KERN_B1, p + KERN_GROUP * KERN_MR, q + KERN_GROUP * KERN_NR)
		}
	}
	_tile_stored(KERN_C0, sums[0], sizeof *sums);
	_tile_stored(KERN_C1, sums[0] + KERN_TILE, sizeof *sums);
	_tile_stored(KERN_D0, more[0], sizeof *more);
	_tile_stored(KERN_D1, more[0] + KERN_TILE, sizeof *more);
	for (int j = 0; j < KERN_NR; j++, c += ldc) {
		float column[KERN_MR] = {0}; // apart from C, so that the loop becomes vector instructions
		if (accumulate) { memcpy(column, c, sizeof column); }
		for (int i = 0; i < KERN_MR; i++) { column[i] += (float)(sums[j][i] + more[j][i] + b->first[j]) * (a->scale[i] * b->scale[j]); }
		memcpy(c, column, sizeof column);
	}
}

#endif
