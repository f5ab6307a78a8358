#include "softmax.h"
#include "scratch.h"
#include "vector.h"

#include <string.h>

// ALiBi slopes as in ggml: powers of two; heads beyond a power of two take the values between.
static float kern_alibi_slope(float max_bias, int64_t head, int64_t heads) {
	int64_t power = 1;
	while (2 * power <= heads) {
		power *= 2;
	}
	float exponent = head < power ? head + 1 : head - power + 0.5f;
	return max_bias == 0 ? 0 : exp2f(-max_bias * exponent / power);
}

struct kern_scores kern_scores_of(float scale, float max_bias, const struct ggml_tensor *sinks, int64_t head, int64_t heads) {
	return (struct kern_scores){
		.scale = scale, .slope = kern_alibi_slope(max_bias, head, heads),
		.sink = sinks == NULL ? -INFINITY : ((const float *)sinks->data)[head],
	};
}

KERN_CLONES void kern_bend_row(float *restrict x, int64_t n, float factor) {
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] = kern_tanh(factor * x[j + i]);
		}
	}
}

// x + slope · (i − query) of n elements, rounded up to a multiple of KERN_SOFTMAX_STEP.
KERN_CLONES static void kern_add_distances(float *restrict x, int64_t n, float slope, int64_t query) {
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		float first = (float)(j - query);
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] += slope * (first + (float)i);
		}
	}
}

// Sets values negligible beside 1 to 0, as most weights of far keys are with ALiBi: products with
// subnormal operands or results take many times as long.
KERN_CLONES static void kern_drop_tiny(float *restrict x, int64_t n) {
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] = x[j + i] < 1e-28f ? 0 : x[j + i];
		}
	}
}

// softmax(scale · x) of n elements, padded with -Inf to multiples of KERN_SOFTMAX_STEP, and of a
// sink in the unit of x, whose weight it returns. With drop, far keys get a weight of 0.
KERN_CLONES static float kern_softmax_padded(float *restrict x, int64_t n, float scale, float sink, bool drop) {
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
	max = sink > max ? sink : max;
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] = kern_exp((x[j + i] - max) * scale);
		}
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			sum[i] += x[j + i];
		}
	}
	if (drop) {
		kern_drop_tiny(x, n);
	}
	float rest = kern_exp((sink - max) * scale), factor = 1 / (kern_softmax_sum(sum) + rest);
	for (int64_t j = 0; j < n; j += KERN_SOFTMAX_STEP) {
		for (int i = 0; i < KERN_SOFTMAX_STEP; i++) {
			x[j + i] *= factor;
		}
	}
	return rest * factor;
}

static void kern_fill(float *x, int64_t from, int64_t to, float value) {
	for (int64_t i = from; i < to; i++) {
		x[i] = value;
	}
}

float kern_softmax(float *row, struct kern_visible v, int64_t size, struct kern_scores s) {
	int64_t to = kern_min(v.to, size), from = kern_min(v.from, to - 1);
	int64_t start = kern_softmax_start(from), n = to - start, padded = kern_ceil_div(n, KERN_SOFTMAX_STEP) * KERN_SOFTMAX_STEP;
	int64_t hidden_to = kern_min(v.hidden_to, to - 1) - start, hidden_from = kern_min(v.hidden_from - start, hidden_to);
	float *x = row + start;
	if (start + padded > size) {
		x = kern_scratch(KERN_SCRATCH_ROW, padded * sizeof *x);
		memcpy(x, row + start, n * sizeof *x);
	}
	kern_fill(x, 0, from - start, -INFINITY);
	kern_fill(x, hidden_from, hidden_to, -INFINITY);
	kern_fill(x, n, padded, -INFINITY);
	if (s.slope != 0) {
		kern_add_distances(x, n, s.slope / s.scale, v.to - 1 - start);
		for (int64_t i = from - start; hidden_from < hidden_to && i < hidden_from; i++) {
			x[i] += s.slope / s.scale * (float)(v.hidden_to - v.hidden_from);
		}
	}
	float sink = kern_softmax_padded(x, n, s.scale, s.sink / s.scale, s.slope != 0);
	kern_fill(x, hidden_from, hidden_to, 0);
	if (x != row + start) {
		memcpy(row + start, x, n * sizeof *x);
	}
	memset(row, 0, from * sizeof *row);
	memset(row + to, 0, (size - to) * sizeof *row);
	return sink;
}

KERN_OP(causal_softmax) {
	(void)userdata;
	struct kern_softmax_params p;
	memcpy(&p, kern_params(dst), sizeof p);
	const struct ggml_tensor *sinks = kern_optional(dst, p.sinks);
	struct kern_bounds bounds = kern_bounds_of(dst, p.first_visible, p.hidden);
	int64_t rows = ggml_nrows(dst), heads = dst->ne[2];
	for (int64_t r = rows * ith / nth; r < rows * (ith + 1) / nth; r++) {
		int64_t query = p.position + r % dst->ne[1], head = r / dst->ne[1] % heads;
		struct kern_visible v = kern_visible_to(&bounds, query, r / (dst->ne[1] * heads));
		kern_softmax((float *)dst->data + r * dst->ne[0], v, dst->ne[0], kern_scores_of(p.scale, p.max_bias, sinks, head, heads));
	}
}
