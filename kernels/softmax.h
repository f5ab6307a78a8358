// The softmax of causal attention. ggml's own masks, scales and finds the maximum without vector instructions.
#ifndef KERN_SOFTMAX_H
#define KERN_SOFTMAX_H

#include "kern.h"

struct kern_softmax_params {
	float scale;
	int32_t position; // of the first query
};

// softmax(scale · A) of each row, in place: A [keys, queries, heads, batch] and, optionally, the first key that each query
// sees. Row i ends with the key at the query's own position, and has zeros around what it sees.
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

// Elements of a step of a vectorised loop: each has a maximum, and a sum, of its own.
enum { KERN_SOFTMAX_STEP = 32 };

// Where the step of a vectorised loop begins that has element from.
static inline int64_t kern_softmax_start(int64_t from) { return from / KERN_SOFTMAX_STEP * KERN_SOFTMAX_STEP; }

// softmax(scale · row) of the elements [from, to); the others up to size become zeros.
void kern_softmax(float *row, int64_t from, int64_t to, int64_t size, float scale);

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
