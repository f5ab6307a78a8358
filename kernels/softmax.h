// The softmax of causal attention. ggml's own masks, scales and finds the maximum without vector instructions.
#ifndef KERN_SOFTMAX_H
#define KERN_SOFTMAX_H

#include "kern.h"

struct kern_softmax_params {
	float scale;
	int32_t first;
};

// softmax(scale · A) of each row, in place; row i of a matrix ends with element first + i, and has zeros behind it.
KERN_OP(causal_softmax);

// Elements of a step of a vectorised loop: each has a maximum, and a sum, of its own.
enum { KERN_SOFTMAX_STEP = 32 };

// softmax(scale · row) of the first n elements; the others up to size become zeros.
void kern_softmax(float *row, int64_t n, int64_t size, float scale);

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

#endif
