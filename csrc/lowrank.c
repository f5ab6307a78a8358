//go:build ignore

#include "lowrank.h"
#include "tiled.h"
#include "vector.h"

// Outputs that a thread computes at a time: their part of b stays in its cache.
// No matter how many threads there are, or the sums would differ in the last bit.
enum { LOW_RANK_BLOCK = 256 };

GOGGML_CLONES static void goggml_add_scaled(float *restrict y, const float *restrict x, float factor, int64_t n) {
	enum { STEP = 64 };
	for (; n >= STEP; n -= STEP, y += STEP, x += STEP) {
		for (int i = 0; i < STEP; i++) {
			y[i] += factor * x[i];
		}
	}
	for (int64_t i = 0; i < n; i++) {
		y[i] += factor * x[i];
	}
}

// The part [o0, o0+n) of the r rows of b as floats, with their distance.
static const float *goggml_low_rank_tile(const struct ggml_tensor *b, int64_t o0, int64_t n, int64_t *stride) {
	const char *first = (const char *)b->data + ggml_row_size(b->type, o0);
	if (b->type == GGML_TYPE_F32) {
		*stride = b->ne[1] > 1 ? (int64_t)(b->nb[1] / sizeof(float)) : b->ne[0]; // that of a single row can be any
		return (const float *)first;
	}
	float *tile = goggml_scratch(GOGGML_TILE, n * b->ne[1] * sizeof *tile);
	ggml_to_float_t to_float = goggml_to_float(b->type);
	for (int64_t r = 0; r < b->ne[1]; r++) {
		to_float(first + r * b->nb[1], tile + r * n, n);
	}
	*stride = n;
	return tile;
}

// From so many columns on the library is faster than the plain loop.
enum { LOW_RANK_COLUMNS = 8 };

static void goggml_add_low_rank(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	const struct ggml_tensor *b = dst->src[1], *h = dst->src[2];
	int64_t m = dst->ne[0], n = dst->ne[1], rank = b->ne[1];
	bool library = n >= LOW_RANK_COLUMNS && goggml_blas_name() != NULL;
	for (int64_t o0 = worker * LOW_RANK_BLOCK; o0 < m; o0 += workers * LOW_RANK_BLOCK) {
		int64_t stride, o = goggml_min(LOW_RANK_BLOCK, m - o0);
		const float *tile = goggml_low_rank_tile(b, o0, o, &stride);
		float *y = (float *)dst->data + o0;
		if (library) {
			struct goggml_gemm g = {
				.add = true, .n = n, .o = o, .r = rank, .lda = h->nb[1] / sizeof(float), .ldb = stride, .ldo = dst->nb[1] / sizeof(float),
			};
			goggml_multiply(&g, h->data, tile, y);
			continue;
		}
		for (int64_t i = 0; i < n; i++) {
			const float *factors = (const float *)((const char *)h->data + i * h->nb[1]);
			for (int64_t r = 0; r < rank; r++) {
				goggml_add_scaled((float *)((char *)y + i * dst->nb[1]), tile + r * stride, factors[r], o);
			}
		}
	}
}

goggml_tensor goggml_op_add_low_rank(goggml_a arena, goggml_t y, goggml_t b, goggml_t h) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {b, h};
	GUARDED(goggml_tensor, ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), y, operands, 2,
		goggml_add_low_rank, GGML_N_TASKS_MAX, NULL))
}
