// The cross-entropy of softmax and its gradient, for logits of a large vocabulary. Composed of
// ggml's own ops, it would read and write the logits several times, sometimes on one thread.
#ifndef KERN_CROSS_ENTROPY_H
#define KERN_CROSS_ENTROPY_H

#include "kern.h"

// logits, labels, and optionally probs → [n, 3]: losses, max(logits), and Σ exp(logits − max) of the n
// rows of logits.
KERN_OP(cross_entropy);
// logits, labels, weights, columns 1 and 2 of the above [n, 2], and optionally probs → the gradient of
// Σ weights · losses, in place of logits.
KERN_OP(cross_entropy_grad);

#endif
