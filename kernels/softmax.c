#include "softmax.h"
#include "scratch.h"
#include "vector.h"

#include <string.h>

// softmax(scale · x) of n elements, with -Inf around them up to multiples of KERN_SOFTMAX_STEP.
KERN_CLONES static void kern_softmax_padded(float *restrict x, int64_t n, float scale) {
	float top[KERN_SOFTMAX_STEP], sum[KERN_SOFTMAX_STEP] = {0};
	for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
		top[i] = -INFINITY;
	}
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			top[i] = x[j + i] > top[i] ? x[j + i] : top[i];
		}
	}
	float max = kern_softmax_max(top);
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] = kern_exp((x[j + i] - max) * scale);
		}
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			sum[i] += x[j + i];
		}
	}
	float factor = 1 / kern_softmax_sum(sum);
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] *= factor;
		}
	}
}

static void kern_fill(float *x, int64_t from, int64_t to, float value) {
	for (int64_t i = from; i < to; i++) {
		x[i] = value;
	}
}

void kern_softmax(float *row, int64_t from, int64_t to, int64_t size, float scale) {
	int64_t start = kern_softmax_start(from), n = to - start, padded = kern_ceil_div(n, KERN_SOFTMAX_STEP) * KERN_SOFTMAX_STEP;
	float *x = row + start;
	if (start + padded > size) {
		x = kern_scratch(KERN_SCRATCH_ROW, padded * sizeof *x);
		memcpy(x, row + start, n * sizeof *x);
	}
	kern_fill(x, 0, from - start, -INFINITY);
	kern_fill(x, n, padded, -INFINITY);
	kern_softmax_padded(x, n, scale);
	if (x != row + start) {
		memcpy(row + start, x, n * sizeof *x);
	}
	memset(row, 0, from * sizeof *row);
	memset(row + to, 0, (size - to) * sizeof *row);
}

KERN_OP(causal_softmax) {
	(void)userdata;
	struct kern_softmax_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	int64_t rows = ggml_nrows(dst);
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		int64_t query = p.position + r % dst->ne[1], to = kern_min(query + 1, dst->ne[0]);
		int64_t from = kern_first_visible(dst->src[1], query, r / (dst->ne[1] * dst->ne[2]));
		kern_softmax((float *)dst->data + r * dst->ne[0], kern_min(from, to - 1), to, dst->ne[0], p.scale);
	}
}
