// The softmax of causal attention. ggml's own masks, scales and finds the maximum without vector instructions.
#ifndef KERN_SOFTMAX_H
#define KERN_SOFTMAX_H

#include "kern.h"

struct kern_softmax_params {
	float scale, max_bias;
	int32_t position;            // of the first query
	int32_t first_visible, sinks; // the operands that these are; 0 for none
};

// The softmax of each row, in place: A [keys, queries, heads, batch] and, optionally, the first key that each query sees
// and the sink of each head. Row i ends with the key at the query's own position, and has zeros around what it sees.
KERN_OP(causal_softmax);

// The first key that a query sees: t is I32 [n, batch] or NULL, where it is all up to its own. What is no position of such
// a key is clamped.
static inline int64_t kern_first_visible(const struct ggml_tensor *t, int64_t query, int64_t sample) {
	if (t == NULL) {
		return 0;
	}
	int64_t first = *(const int32_t *)((const char *)t->data + query * sizeof(int32_t) + sample * t->nb[1]);
	return kern_min(kern_max(first, 0), query);
}

// Elements of a step of a vectorised loop. Each has a maximum and a sum of its own.
enum { KERN_SOFTMAX_STEP = 32 };

// Where the step of a vectorised loop begins that has element from.
static inline int64_t kern_softmax_start(int64_t from) { return from / KERN_SOFTMAX_STEP * KERN_SOFTMAX_STEP; }

// What becomes of the scores of a head on the way to their softmax.
struct kern_scores {
	float scale;
	float slope; // of ALiBi (arXiv 2108.12409): what they are lowered by for each position between key and query; 0 for none
	float sink;  // one more of them, which takes part in the sum alone (arXiv 2309.17453); -INFINITY for none
};

// The score settings of a head, given the sinks of all heads, or NULL.
struct kern_scores kern_scores_of(float scale, float max_bias, const struct ggml_tensor *sinks, int64_t head, int64_t heads);

// The weights of the keys [first, query] of a row, in place, for the query at a position; the others up to size become
// zeros. Returns the weight of the sink.
float kern_softmax(float *row, int64_t first, int64_t query, int64_t size, struct kern_scores s);

// The sum of KERN_SOFTMAX_STEP elements, which it overwrites. The loops have a fixed length each, so that the compiler
// vectorises them.
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

// The maximum of KERN_SOFTMAX_STEP elements, as kern_softmax_sum.
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
