#include "adamw.h"
#include "elementwise.h"
#include "vector.h"

#include <math.h>
#include <string.h>

enum { KERN_SQUARES_STEP = 64, KERN_ADAMW_STEP = 32 };

KERN_CLONES static float kern_sum_squares(const float *x, int64_t n) {
	float lanes[KERN_SQUARES_STEP] = {0};
	double sum = 0;
	for (; n >= KERN_SQUARES_STEP; n -= KERN_SQUARES_STEP, x += KERN_SQUARES_STEP) {
		for (int i = 0; i < KERN_SQUARES_STEP; i++) {
			lanes[i] += x[i] * x[i];
		}
	}
	for (int i = 0; i < KERN_SQUARES_STEP; i++) {
		sum += lanes[i];
	}
	for (int64_t i = 0; i < n; i++) {
		sum += (double)x[i] * x[i];
	}
	return (float)sum;
}

KERN_OP(sum_squares) {
	(void)userdata;
	int64_t n = ggml_nelements(dst->src[0]);
	const float *x = dst->src[0]->data;
	float *sums = dst->data;
	for (int64_t i = ith; i < dst->ne[0]; i += nth) {
		sums[i] = kern_sum_squares(x + i * KERN_SQUARES, kern_min(KERN_SQUARES, n - i * KERN_SQUARES));
	}
}

// The settings, as in ggml's opt_step_adamw, and the factor of the gradient.
struct kern_adamw {
	float rate, beta1, beta2, epsilon, decay, correction1, correction2, scale;
};

static inline void kern_adamw_step(float *restrict a, float *restrict grad, float *restrict m, float *restrict v, const struct kern_adamw *p) {
	for (int i = 0; i < KERN_ADAMW_STEP; i++) {
		float g = p->scale * grad[i];
		m[i] = p->beta1 * m[i] + (1 - p->beta1) * g;
		v[i] = p->beta2 * v[i] + (1 - p->beta2) * g * g;
		float move = m[i] * p->correction1 / (kern_sqrt(v[i] * p->correction2) + p->epsilon);
		a[i] = (1 - p->rate * p->decay) * a[i] - p->rate * move;
		grad[i] = 0;
	}
}

KERN_CLONES static void kern_adamw(float *restrict a, float *restrict grad, float *restrict m, float *restrict v,
		const struct kern_adamw *p, int64_t n) {
	for (; n >= KERN_ADAMW_STEP; n -= KERN_ADAMW_STEP, a += KERN_ADAMW_STEP, grad += KERN_ADAMW_STEP, m += KERN_ADAMW_STEP, v += KERN_ADAMW_STEP) {
		kern_adamw_step(a, grad, m, v, p);
	}
	float *all[] = {a, grad, m, v}, rest[4][KERN_ADAMW_STEP] = {0};
	for (int i = 0; i < 4; i++) {
		memcpy(rest[i], all[i], n * sizeof *rest[i]);
	}
	kern_adamw_step(rest[0], rest[1], rest[2], rest[3], p);
	for (int i = 0; i < 4; i++) {
		memcpy(all[i], rest[i], n * sizeof *rest[i]);
	}
}

KERN_OP(adamw_step) {
	(void)userdata;
	struct kern_adamw p;
	memcpy(&p, dst->src[4]->data, sizeof p);
	struct kern_share s = kern_share_of(ggml_nelements(dst), ith, nth);
	float *grad = dst->src[1]->data;
	if (p.rate == 0 && p.beta1 == 1 && p.beta2 == 1) { // skipped step: nothing moves, even if grad is NaN
		memset(grad + s.from, 0, (s.to - s.from) * sizeof *grad);
		return;
	}
	float *m = dst->src[2]->data, *v = dst->src[3]->data;
	kern_adamw((float *)dst->data + s.from, grad + s.from, m + s.from, v + s.from, &p, s.to - s.from);
}

static bool kern_is_finite(float x) { return x - x == 0; }

KERN_OP(gate_step) {
	(void)userdata;
	if (ith > 0) {
		return;
	}
	(void)nth;
	const struct kern_gate *gate = kern_params(dst);
	const float *squares = dst->src[0]->data, *losses = dst->src[1]->data, *weights = dst->src[2]->data;
	bool taken = kern_is_finite(*squares);
	for (int64_t i = 0, n = ggml_nelements(dst->src[1]); i < n; i++) {
		taken = taken && (weights[i] == 0 || kern_is_finite(losses[i]));
	}
	double norm = sqrt(*squares);
	const struct kern_adamw *settings = dst->src[3]->data;
	struct kern_adamw *gated = dst->data;
	int64_t groups = dst->ne[1] - 1;
	for (int64_t i = 0; i < groups; i++) {
		gated[i] = settings[taken ? i : groups];
		if (taken) {
			double factor = settings[i].scale, scaled = norm * factor;
			gated[i].scale = (float)(factor * (gate->clip > 0 && scaled > gate->clip ? gate->clip / scaled : 1));
		}
	}
	float *status = (float *)(gated + groups);
	memset(status, 0, sizeof *gated);
	status[0] = *squares;
	status[1] = taken;
}
