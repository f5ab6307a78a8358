#include "cross_entropy.h"
#include "softmax.h"
#include "vector.h"

#include <string.h>

// Elements per part of a row: a part is read twice, for its maximum and its sum, and stays in the
// L1 cache meanwhile.
enum { KERN_LOGITS = 4096 };

// kern_exp, but 0 for negligible values.
static inline float kern_exp_or_zero(float x) { return kern_select(x < -87.0f, 0, kern_exp(x)); }

// Adds n elements, a multiple of KERN_SOFTMAX_STEP, to the normaliser.
KERN_CLONES static void kern_normalise_steps(struct kern_normaliser *z, const float *restrict x, int64_t n) {
	float top[KERN_SOFTMAX_STEP], sum[KERN_SOFTMAX_STEP] = {0};
	for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
		top[i] = z->max;
	}
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			top[i] = x[j + i] > top[i] ? x[j + i] : top[i];
		}
	}
	float max = kern_softmax_max(top), shift = max == -INFINITY ? 0.0f : max; // -Inf − -Inf is NaN
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			sum[i] += kern_exp_or_zero(x[j + i] - shift);
		}
	}
	z->sum = z->sum * exp((double)z->max - shift) + kern_softmax_sum(sum);
	z->max = max;
}

struct kern_normaliser kern_normalise(const float *x, int64_t n) {
	struct kern_normaliser z = {.max = -INFINITY};
	for (; n >= KERN_SOFTMAX_STEP; ) {
		int64_t part = kern_min(n, KERN_LOGITS) / KERN_SOFTMAX_STEP * KERN_SOFTMAX_STEP;
		kern_normalise_steps(&z, x, part);
		x += part;
		n -= part;
	}
	float rest[KERN_SOFTMAX_STEP];
	for (int64_t i = 0; i < KERN_SOFTMAX_STEP; i++) {
		rest[i] = i < n ? x[i] : -INFINITY;
	}
	kern_normalise_steps(&z, rest, KERN_SOFTMAX_STEP);
	return z;
}

// Returns the label of a row, or -1 if it is not in [0, n).
static inline int64_t kern_label(const struct ggml_tensor *labels, int64_t row, int64_t n) {
	int32_t id = ((const int32_t *)labels->data)[row];
	return id >= 0 && id < n ? id : -1;
}

KERN_OP(cross_entropy) {
	(void)userdata;
	const struct ggml_tensor *logits = dst->src[0];
	int64_t n = logits->ne[0], rows = dst->ne[0];
	float *losses = dst->data, *max = losses + rows, *sum = max + rows;
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		const float *x = (const float *)logits->data + r * n;
		struct kern_normaliser z = kern_normalise(x, n);
		int64_t label = kern_label(dst->src[1], r, n);
		losses[r] = label < 0 ? NAN : (float)(z.max - (double)x[label] + log(z.sum));
		max[r] = z.max;
		sum[r] = (float)z.sum;
	}
}

KERN_CLONES void kern_scaled_exp(float *x, int64_t n, float max, float factor) {
	for (; n >= KERN_SOFTMAX_STEP; n -= KERN_SOFTMAX_STEP, x += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[i] = factor * kern_exp_or_zero(x[i] - max);
		}
	}
	for (int64_t i = 0; i < n; i++) {
		x[i] = factor * kern_exp_or_zero(x[i] - max);
	}
}

KERN_OP(cross_entropy_grad) {
	(void)userdata;
	int64_t n = dst->ne[0], rows = ggml_nrows(dst);
	const float *weights = dst->src[2]->data, *max = dst->src[3]->data, *sum = max + rows;
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		float *x = (float *)dst->data + r * n;
		kern_scaled_exp(x, n, max[r], weights[r] / sum[r]);
		int64_t label = kern_label(dst->src[1], r, n);
		if (label >= 0) {
			x[label] -= weights[r];
		}
	}
}
