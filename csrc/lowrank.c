//go:build ignore

#include "lowrank.h"
#include "tiled.h"
#include "rows.h"
#include "vector.h"

// Outputs that are computed at a time: their part of b stays in the cache. No
// matter how many threads there are, or the library's sums would differ in the
// last bit.
enum { LOW_RANK_BLOCK = 256 };

// Below so many columns the rows of b are added up as they are, and workers divide
// the outputs finer.
enum { FEW_COLUMNS = 8, LOW_RANK_STEP = 64 };

// The part [o0, o0+n) of the rows of b in the type, with their distance in bytes.
static const void *goggml_low_rank_rows(const struct ggml_tensor *b, enum ggml_type type, int64_t o0, int64_t n, size_t *distance) {
	const char *first = (const char *)b->data + ggml_row_size(b->type, o0);
	if (b->type == type) {
		*distance = b->ne[1] > 1 ? b->nb[1] : ggml_row_size(type, b->ne[0]); // that of a single row can be any
		return first;
	}
	float *tile = goggml_scratch(GOGGML_TILE, n * b->ne[1] * sizeof *tile);
	ggml_to_float_t to_float = goggml_to_float(b->type);
	for (int64_t r = 0; r < b->ne[1]; r++) {
		goggml_fetch(first + r * b->nb[1], ggml_row_size(b->type, n));
	}
	for (int64_t r = 0; r < b->ne[1]; r++) {
		to_float(first + r * b->nb[1], tile + r * n, n);
	}
	*distance = n * sizeof *tile;
	return tile;
}

// Adds the outputs [o0, o0+o) of b · h to y, which starts at the first output.
static void goggml_add_thin(const struct ggml_tensor *dst, float *y, const struct ggml_tensor *b, const struct ggml_tensor *h, int64_t o0, int64_t o) {
	int64_t n = dst->ne[1], rank = b->ne[1];
	bool few = n < FEW_COLUMNS || goggml_blas_name() == NULL;
	enum ggml_type type = few && goggml_has_rows(b->type) ? b->type : GGML_TYPE_F32;
	size_t distance;
	const void *rows = goggml_low_rank_rows(b, type, o0, o, &distance);
	y += o0;
	if (!few) {
		struct goggml_gemm g = {
			.add = true, .n = n, .o = o, .r = rank,
			.lda = h->nb[1] / sizeof(float), .ldb = distance / sizeof(float), .ldo = dst->nb[1] / sizeof(float),
		};
		goggml_multiply(&g, h->data, rows, y);
		return;
	}
	for (int64_t i = 0; i < n; i++) {
		const float *factors = (const float *)((const char *)h->data + i * h->nb[1]);
		goggml_add_rows((float *)((char *)y + i * dst->nb[1]), type, rows, distance, factors, rank, o);
	}
}

static void goggml_add_low_rank(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	float *y = dst->data;
	int64_t unit = dst->ne[1] < FEW_COLUMNS ? LOW_RANK_STEP : LOW_RANK_BLOCK, units = 0;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		units += goggml_cuts(dst->src[i]->ne[0], unit);
	}
	// Neighbours, as in the product that made y: it is in the caches of its workers.
	int64_t from = units * worker / workers, to = units * (worker + 1) / workers;
	for (int i = 1; i + 1 < GGML_MAX_SRC && dst->src[i] != NULL; i += 2) {
		const struct ggml_tensor *b = dst->src[i];
		int64_t end = goggml_min(b->ne[0], to * unit);
		for (int64_t o = goggml_max(from, 0) * unit; o < end; o += LOW_RANK_BLOCK) {
			goggml_add_thin(dst, y, b, dst->src[i + 1], o, goggml_min(LOW_RANK_BLOCK, end - o));
		}
		units = goggml_cuts(b->ne[0], unit);
		from -= units;
		to -= units;
		y += b->ne[0];
	}
}

goggml_tensor goggml_op_add_low_rank(goggml_a arena, goggml_t y, struct ggml_tensor **pairs, int n) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), y, pairs, n,
		goggml_add_low_rank, GGML_N_TASKS_MAX, NULL))
}
