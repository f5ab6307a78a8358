// The cross-entropy of softmax and its gradient, for logits of a large vocabulary: ggml's own ops, of which they can be
// made, read and write the logits several times, some on one thread.
#ifndef KERN_CROSS_ENTROPY_H
#define KERN_CROSS_ENTROPY_H

#include "kern.h"

// logits, labels → [n, 3]: the losses, then max(logits), then Σ exp(logits − max), of each of n rows of logits.
KERN_OP(cross_entropy);
// logits, in place, become the gradient of Σ weights · losses: logits, labels, weights, and [n, 2] of the above.
KERN_OP(cross_entropy_grad);

#endif
