#include "amx.h"
#include "gemm_bf16.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define KERN_AMX __attribute__((target("amx-tile,amx-bf16")))

// A tile has 16 rows of 64 bytes. Rows of C's tiles are its columns, since C is column-major: tiles of B come first in a product.
enum { KERN_TILE = 16, KERN_BLOCK = 2 * KERN_TILE };
// Numbers of tiles, which GCC wants as text; C's by column, then row.
#define KERN_C00 0
#define KERN_C01 1
#define KERN_C10 2
#define KERN_C11 3
#define KERN_B0 4
#define KERN_B1 5
#define KERN_A0 6
#define KERN_A1 7

// All eight tiles have the full size.
static const struct kern_tile_config kern_full_tiles = {
	.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16},
};

#define KERN_BEGIN(tile, c, ldc) \
	if (g->accumulate) { _tile_loadd(tile, c, (ldc) * sizeof(float)); } else { _tile_zero(tile); }

KERN_AMX static void kern_block_32x32(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c) {
	float *second = c + KERN_TILE * g->ldc;
	KERN_BEGIN(KERN_C00, c, g->ldc)
	KERN_BEGIN(KERN_C01, c + KERN_TILE, g->ldc)
	KERN_BEGIN(KERN_C10, second, g->ldc)
	KERN_BEGIN(KERN_C11, second + KERN_TILE, g->ldc)
	for (int64_t p = 0; p < g->pairs; p += KERN_TILE) {
		_tile_loadd(KERN_B0, b + p, g->ldb * sizeof(float));
		_tile_loadd(KERN_A0, a + p * g->lda, g->lda * sizeof(float));
		_tile_dpbf16ps(KERN_C00, KERN_B0, KERN_A0);
		_tile_loadd(KERN_A1, a + p * g->lda + KERN_TILE, g->lda * sizeof(float));
		_tile_dpbf16ps(KERN_C01, KERN_B0, KERN_A1);
		_tile_loadd(KERN_B1, b + KERN_TILE * g->ldb + p, g->ldb * sizeof(float));
		_tile_dpbf16ps(KERN_C10, KERN_B1, KERN_A0);
		_tile_dpbf16ps(KERN_C11, KERN_B1, KERN_A1);
	}
	_tile_stored(KERN_C00, c, g->ldc * sizeof(float));
	_tile_stored(KERN_C01, c + KERN_TILE, g->ldc * sizeof(float));
	_tile_stored(KERN_C10, second, g->ldc * sizeof(float));
	_tile_stored(KERN_C11, second + KERN_TILE, g->ldc * sizeof(float));
}

KERN_AMX static void kern_block_16x16(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c, int64_t ldc) {
	KERN_BEGIN(KERN_C00, c, ldc)
	for (int64_t p = 0; p < g->pairs; p += KERN_TILE) {
		_tile_loadd(KERN_B0, b + p, g->ldb * sizeof(float));
		_tile_loadd(KERN_A0, a + p * g->lda, g->lda * sizeof(float));
		_tile_dpbf16ps(KERN_C00, KERN_B0, KERN_A0);
	}
	_tile_stored(KERN_C00, c, ldc * sizeof(float));
}

static void kern_copy(const float *from, int64_t ld_from, float *to, int64_t ld_to, int64_t rows, int64_t columns) {
	for (int64_t j = 0; j < columns; j++) {
		memcpy(to + j * ld_to, from + j * ld_from, rows * sizeof *to);
	}
}

// A tile that C covers in part is a copy, so that nothing around C is written.
static void kern_edge_16x16(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c, int64_t rows, int64_t columns) {
	float tile[KERN_TILE * KERN_TILE] = {0};
	if (g->accumulate) {
		kern_copy(c, g->ldc, tile, KERN_TILE, rows, columns);
	}
	kern_block_16x16(g, a, b, tile, KERN_TILE);
	kern_copy(tile, KERN_TILE, c, g->ldc, rows, columns);
}

// A block at the end of C, which may cover it in part.
static void kern_last_block(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c, int64_t rows, int64_t columns) {
	for (int64_t j = 0; j < columns; j += KERN_TILE) {
		for (int64_t i = 0; i < rows; i += KERN_TILE) {
			int64_t tile_rows = rows - i < KERN_TILE ? rows - i : KERN_TILE, tile_columns = columns - j < KERN_TILE ? columns - j : KERN_TILE;
			kern_edge_16x16(g, a + i, b + j * g->ldb, c + j * g->ldc + i, tile_rows, tile_columns);
		}
	}
}

KERN_AMX void kern_gemm_amxbf16_32x32(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c) {
	struct kern_tiles tiles = kern_tiles_configure(&kern_full_tiles);
	for (int64_t j = 0; j < g->n; j += KERN_BLOCK) {
		for (int64_t i = 0; i < g->m; i += KERN_BLOCK) {
			int64_t rows = g->m - i, columns = g->n - j;
			const uint32_t *rows_of_a = a + i, *columns_of_b = b + j * g->ldb;
			float *block = c + j * g->ldc + i;
			if (rows >= KERN_BLOCK && columns >= KERN_BLOCK) {
				kern_block_32x32(g, rows_of_a, columns_of_b, block);
			} else {
				kern_last_block(g, rows_of_a, columns_of_b, block, rows < KERN_BLOCK ? rows : KERN_BLOCK, columns < KERN_BLOCK ? columns : KERN_BLOCK);
			}
		}
	}
	kern_tiles_restore(&tiles);
}

#endif
