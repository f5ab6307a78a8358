// The micro-kernel of AMX-INT8 with tiles in memory, as Intel's manual describes the instructions: tests of it need no AMX.
#include "gemm_ukr.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

enum { KERN_TILE_BYTES = 64 }; // of a row

static _Thread_local uint8_t kern_tile[8][16][KERN_TILE_BYTES];
static int kern_tile_rows(int tile);

static void kern_tile_load(int tile, const void *from, int64_t stride) {
	for (int row = 0; row < kern_tile_rows(tile); row++) { memcpy(kern_tile[tile][row], (const char *)from + row * stride, KERN_TILE_BYTES); }
}

static void kern_tile_store(int tile, void *to, int64_t stride) {
	for (int row = 0; row < kern_tile_rows(tile); row++) { memcpy((char *)to + row * stride, kern_tile[tile][row], KERN_TILE_BYTES); }
}

// Adds the products of signed bytes of a and unsigned bytes of b, four at a time, to the 32-bit integers of c.
static void kern_tile_multiply(int c, int a, int b) {
	for (int row = 0; row < kern_tile_rows(c); row++) {
		int32_t sums[KERN_TILE_BYTES / 4];
		memcpy(sums, kern_tile[c][row], sizeof sums);
		for (int k = 0; k < kern_tile_rows(b); k++) {
			for (int i = 0; i < KERN_TILE_BYTES; i++) { sums[i / 4] += (int8_t)kern_tile[a][row][4 * k + i % 4] * kern_tile[b][k][i]; }
		}
		memcpy(kern_tile[c][row], sums, sizeof sums);
	}
}

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#define _tile_zero(tile) memset(kern_tile[tile], 0, sizeof kern_tile[tile])
#define _tile_loadd kern_tile_load
#define _tile_stored kern_tile_store
#define _tile_dpbsud kern_tile_multiply

#define KERN_AMX static
#define kern_gemm_amxint8_32x12 kern_emulated_32x12
#include "gemm_amxint8_32x12.c"

static int kern_tile_rows(int tile) { return kern_gemm_amxint8_tiles.rows[tile]; }

const kern_ukr kern_gemm_emulated = kern_emulated_32x12;

#else

const kern_ukr kern_gemm_emulated = NULL;

#endif
