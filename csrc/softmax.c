//go:build ignore

#include "softmax.h"
#include "blas.h"
#include "vector.h"

#include <string.h>

enum { SOFTMAX_STEP = 32 }; // elements at a time, in sums of their own

// The loops have a fixed length each, so that they become vector instructions.
__attribute__((always_inline)) static inline float goggml_max_of(float *x) {
	for (int i = 0; i < 16; i++) {
		x[i] = x[i + 16] > x[i] ? x[i + 16] : x[i];
	}
	for (int i = 0; i < 8; i++) {
		x[i] = x[i + 8] > x[i] ? x[i + 8] : x[i];
	}
	for (int i = 0; i < 4; i++) {
		x[i] = x[i + 4] > x[i] ? x[i + 4] : x[i];
	}
	for (int i = 1; i < 4; i++) {
		x[0] = x[i] > x[0] ? x[i] : x[0];
	}
	return x[0];
}

__attribute__((always_inline)) static inline float goggml_sum_of(float *x) {
	for (int i = 0; i < 16; i++) {
		x[i] += x[i + 16];
	}
	for (int i = 0; i < 8; i++) {
		x[i] += x[i + 8];
	}
	for (int i = 0; i < 4; i++) {
		x[i] += x[i + 4];
	}
	return (x[0] + x[2]) + (x[1] + x[3]);
}

// The softmax of scale · x for n elements, and -Inf behind them up to a multiple of SOFTMAX_STEP.
GOGGML_CLONES static void goggml_soft_max_row(float *restrict x, int64_t n, float scale) {
	float top[SOFTMAX_STEP], sum[SOFTMAX_STEP] = {0};
	for (int i = 0; i < SOFTMAX_STEP; i++) {
		top[i] = -INFINITY;
	}
	for (int64_t j = 0; j < n; j += SOFTMAX_STEP) {
		for (int i = 0; i < SOFTMAX_STEP; i++) {
			top[i] = x[j + i] > top[i] ? x[j + i] : top[i];
		}
	}
	float max = goggml_max_of(top);
	for (int64_t j = 0; j < n; j += SOFTMAX_STEP) {
		for (int i = 0; i < SOFTMAX_STEP; i++) {
			x[j + i] = goggml_exp((x[j + i] - max) * scale);
		}
		for (int i = 0; i < SOFTMAX_STEP; i++) {
			sum[i] += x[j + i];
		}
	}
	float factor = 1 / goggml_sum_of(sum);
	for (int64_t j = 0; j < n; j += SOFTMAX_STEP) {
		for (int i = 0; i < SOFTMAX_STEP; i++) {
			x[j + i] *= factor;
		}
	}
}

// The same for any n elements of a row of room elements; the others become zeros.
static void goggml_soft_max_head(float *row, int64_t n, int64_t room, float scale) {
	int64_t padded = (n + SOFTMAX_STEP - 1) / SOFTMAX_STEP * SOFTMAX_STEP;
	float *x = row;
	if (padded > room) {
		x = goggml_scratch(GOGGML_ROW, padded * sizeof *x);
		memcpy(x, row, n * sizeof *x);
	}
	for (int64_t i = n; i < padded; i++) {
		x[i] = -INFINITY;
	}
	goggml_soft_max_row(x, n, scale);
	if (x != row) {
		memcpy(row, x, n * sizeof *x);
	}
	memset(row + n, 0, (room - n) * sizeof *row);
}

struct goggml_causal {
	float scale;
	int32_t first;
};

static void goggml_causal_soft_max(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	struct goggml_causal c;
	memcpy(&c, dst->op_params + CUSTOM_PARAMS, sizeof c);
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * worker / workers; r < rows * (worker + 1) / workers; r++) {
		int64_t n = c.first + r % dst->ne[1] + 1;
		goggml_soft_max_head((float *)dst->data + r * dst->ne[0], n < dst->ne[0] ? n : dst->ne[0], dst->ne[0], c.scale);
	}
}

static struct ggml_tensor *goggml_make_causal(goggml_arena *arena, struct ggml_tensor *a, struct goggml_causal c) {
	struct ggml_tensor *t = ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), a, NULL, 0,
		goggml_causal_soft_max, GGML_N_TASKS_MAX, NULL);
	memcpy(t->op_params + CUSTOM_PARAMS, &c, sizeof c);
	return t;
}

goggml_tensor goggml_op_causal_soft_max(goggml_a arena, goggml_t a, float scale, int32_t first) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, goggml_make_causal(arena, a, (struct goggml_causal){scale, first}))
}
