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

// Adds the outputs [o0, o0+o) of b · h to y, which starts at the first output.
static void goggml_add_outputs(const struct ggml_tensor *dst, float *y, const struct ggml_tensor *b, const struct ggml_tensor *h, int64_t o0, int64_t o) {
	int64_t n = dst->ne[1], stride;
	y += o0;
	if (n >= FEW_COLUMNS && goggml_blas_name() != NULL) {
		struct goggml_sum sum = {.out = y, .stride = dst->nb[1] / sizeof *y};
		goggml_add_thin(b, h, &sum, o0, o0 + o, 0, n);
		return;
	}
	enum ggml_type type = goggml_has_rows(b->type) ? b->type : GGML_TYPE_F32;
	const void *rows = goggml_tile(b, 0, type, o0, o0 + o, 0, b->ne[1], &stride);
	for (int64_t i = 0; i < n; i++) {
		const float *factors = (const float *)((const char *)h->data + i * h->nb[1]);
		goggml_add_rows((float *)((char *)y + i * dst->nb[1]), type, rows, stride * ggml_type_size(type), factors, b->ne[1], o);
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
			goggml_add_outputs(dst, y, b, dst->src[i + 1], o, goggml_min(LOW_RANK_BLOCK, end - o));
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
