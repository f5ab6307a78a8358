// The softmax of causal attention. ggml's own masks, scales and finds the maximum without vector
// instructions.
#ifndef KERN_SOFTMAX_H
#define KERN_SOFTMAX_H

#include "kern.h"

struct kern_softmax_params {
	float scale, max_bias;
	int32_t position;                     // position of the first query
	int32_t first_visible, hidden, sinks; // operand indices; 0 if absent
};

// Softmax of each row, in place: A [keys, queries, heads, batch]; optional: the first visible key
// of each query, the bounds of the keys that it skips, and the sink of each head. Row i ends with
// the key at the query's own position; masked elements become 0.
KERN_OP(causal_softmax);

// Which keys queries see, I32 [n, batch] each: NULL for no bound.
struct kern_bounds {
	const struct ggml_tensor *first_visible, *hidden_from, *hidden_to;
};

// Returns the bounds among the operands of an op; the upper bound of hidden keys follows the lower.
static inline struct kern_bounds kern_bounds_of(const struct ggml_tensor *dst, int32_t first_visible, int32_t hidden) {
	return (struct kern_bounds){kern_optional(dst, first_visible), kern_optional(dst, hidden), hidden == 0 ? NULL : dst->src[hidden + 1]};
}

// The keys that a query sees: [from, to) without [hidden_from, hidden_to).
struct kern_visible {
	int64_t from, to, hidden_from, hidden_to;
};

// Returns a bound for a query, clamped to [least, most].
static inline int64_t kern_bound(const struct ggml_tensor *t, int64_t query, int64_t sample, int64_t least, int64_t most) {
	if (t == NULL) {
		return least;
	}
	int64_t key = *(const int32_t *)((const char *)t->data + query * sizeof(int32_t) + sample * t->nb[1]);
	return kern_min(kern_max(key, least), most);
}

// Returns the keys that a query sees. It always sees its own.
static inline struct kern_visible kern_visible_to(const struct kern_bounds *b, int64_t query, int64_t sample) {
	struct kern_visible v = {.from = kern_bound(b->first_visible, query, sample, 0, query), .to = query + 1};
	v.hidden_to = kern_bound(b->hidden_to, query, sample, v.from, query);
	v.hidden_from = kern_bound(b->hidden_from, query, sample, v.from, v.hidden_to);
	return v;
}

// Elements of a step of a vectorised loop. Each lane has its own maximum and sum.
enum { KERN_SOFTMAX_STEP = 32 };

// Returns the start of the vectorised loop's step that contains element from.
static inline int64_t kern_softmax_start(int64_t from) { return from / KERN_SOFTMAX_STEP * KERN_SOFTMAX_STEP; }

// Changes of a head's scores before the softmax.
struct kern_scores {
	float scale;
	float slope; // ALiBi (arXiv 2108.12409): decrease of the score per position of distance, without hidden keys; 0 means none
	float sink;  // one more score, which counts only in the sum (arXiv 2309.17453); -INFINITY means none
};

// Returns the score settings of a head, given the sinks of all heads, or NULL.
struct kern_scores kern_scores_of(float scale, float max_bias, const struct ggml_tensor *sinks, int64_t head, int64_t heads);

// x becomes tanh(factor · x), for n elements, rounded up to a multiple of KERN_SOFTMAX_STEP.
void kern_bend_row(float *restrict x, int64_t n, float factor);

// Replaces the visible scores of a row by weights, and the other elements up to size by zeros.
// Returns the weight of the sink.
float kern_softmax(float *row, struct kern_visible v, int64_t size, struct kern_scores s);

// Returns the sum of KERN_SOFTMAX_STEP elements, which it overwrites. Each loop has a fixed length,
// so that the compiler vectorises it.
__attribute__((always_inline)) static inline float kern_softmax_sum(float *x) {
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

// Returns the maximum of KERN_SOFTMAX_STEP elements, like kern_softmax_sum.
__attribute__((always_inline)) static inline float kern_softmax_max(float *x) {
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

#endif
