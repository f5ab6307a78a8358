//go:build ignore

#include "adamw.h"
#include "elements.h"
#include "vector.h"

// Elements whose squares are one sum, whatever the number of threads.
enum { SQUARES = 16384, SQUARES_STEP = 64 };

GOGGML_CLONES static float goggml_sum_squares(const float *x, int64_t n) {
	float lanes[SQUARES_STEP] = {0};
	double sum = 0;
	for (; n >= SQUARES_STEP; n -= SQUARES_STEP, x += SQUARES_STEP) {
		for (int i = 0; i < SQUARES_STEP; i++) {
			lanes[i] += x[i] * x[i];
		}
	}
	for (int i = 0; i < SQUARES_STEP; i++) {
		sum += lanes[i];
	}
	for (int64_t i = 0; i < n; i++) {
		sum += (double)x[i] * x[i];
	}
	return (float)sum;
}

static void goggml_compute_square_sums(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	int64_t n = ggml_nelements(dst->src[0]);
	const float *x = dst->src[0]->data;
	float *sums = dst->data;
	for (int64_t i = worker; i < dst->ne[0]; i += workers) {
		sums[i] = goggml_sum_squares(x + i * SQUARES, goggml_min(SQUARES, n - i * SQUARES));
	}
}

struct goggml_adamw {
	float rate, beta1, beta2, epsilon, decay, correction1, correction2, scale;
};

enum { ADAMW_STEP = 32 };

static inline void goggml_adamw_step(float *restrict a, float *restrict grad, float *restrict m, float *restrict v, const struct goggml_adamw *p) {
	for (int i = 0; i < ADAMW_STEP; i++) {
		float g = p->scale * grad[i];
		m[i] = p->beta1 * m[i] + (1 - p->beta1) * g;
		v[i] = p->beta2 * v[i] + (1 - p->beta2) * g * g;
		float move = m[i] * p->correction1 / (goggml_sqrt(v[i] * p->correction2) + p->epsilon);
		a[i] = (1 - p->rate * p->decay) * a[i] - p->rate * move;
		grad[i] = 0;
	}
}

GOGGML_CLONES static void goggml_adamw(float *restrict a, float *restrict grad, float *restrict m, float *restrict v,
		const struct goggml_adamw *p, int64_t n) {
	for (; n >= ADAMW_STEP; n -= ADAMW_STEP, a += ADAMW_STEP, grad += ADAMW_STEP, m += ADAMW_STEP, v += ADAMW_STEP) {
		goggml_adamw_step(a, grad, m, v, p);
	}
	float *all[] = {a, grad, m, v}, rest[4][ADAMW_STEP] = {0};
	for (int i = 0; i < 4; i++) {
		memcpy(rest[i], all[i], n * sizeof *rest[i]);
	}
	goggml_adamw_step(rest[0], rest[1], rest[2], rest[3], p);
	for (int i = 0; i < 4; i++) {
		memcpy(all[i], rest[i], n * sizeof *rest[i]);
	}
}

static void goggml_adamw_share(struct ggml_tensor *dst, int worker, int workers, void *data) {
	(void)data;
	struct goggml_adamw p;
	memcpy(&p, dst->src[4]->data, sizeof p);
	struct goggml_share s = goggml_share_of(ggml_nelements(dst), worker, workers);
	float *grad = dst->src[1]->data, *m = dst->src[2]->data, *v = dst->src[3]->data;
	goggml_adamw((float *)dst->data + s.from, grad + s.from, m + s.from, v + s.from, &p, s.to - s.from);
}

goggml_tensor goggml_op_square_sums(goggml_a arena, goggml_t a) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	GUARDED(goggml_tensor, ggml_custom_4d(goggml_arena_room(arena, GOGGML_OP_ROOM), GGML_TYPE_F32,
		goggml_cuts(ggml_nelements(a), SQUARES), 1, 1, 1, &a, 1, goggml_compute_square_sums, GGML_N_TASKS_MAX, NULL))
}

goggml_tensor goggml_op_adamw(goggml_a arena, goggml_t a, goggml_t grad, goggml_t m, goggml_t v, goggml_t params) {
	if (arena == NULL) { return (goggml_tensor){0}; }
	struct ggml_tensor *operands[] = {grad, m, v, params};
	GUARDED(goggml_tensor, ggml_custom_inplace(goggml_arena_room(arena, GOGGML_OP_ROOM), a, operands, 4,
		goggml_adamw_share, GGML_N_TASKS_MAX, NULL))
}
