// The cross-entropy of softmax and its gradient, for logits of a large vocabulary. Composed of
// ggml's own ops, it would read and write the logits several times, sometimes on one thread.
#ifndef KERN_CROSS_ENTROPY_H
#define KERN_CROSS_ENTROPY_H

#include "kern.h"

// logits, labels → [n, 3]: losses, max(logits), and Σ exp(logits − max) of the n rows of logits.
KERN_OP(cross_entropy);
// logits, labels, weights, columns 1 and 2 of the above [n, 2] → the gradient of Σ weights · losses, in
// place of logits.
KERN_OP(cross_entropy_grad);

// The normaliser of a softmax: Σ exp(x − max). The sum is in F64, because a vocabulary has many
// tokens.
struct kern_normaliser {
	float max;
	double sum;
};

struct kern_normaliser kern_normalise(const float *x, int64_t n);

// Replaces x by factor · exp(x − max).
void kern_scaled_exp(float *x, int64_t n, float max, float factor);

#endif
