// The divergence of softmax from a teacher's most likely labels and its gradient, for logits of a large
// vocabulary.
#ifndef KERN_DIVERGENCE_H
#define KERN_DIVERGENCE_H

#include "kern.h"

struct kern_divergence_params {
	float beta; // 0: forward KL, 1: reverse KL, between: generalised Jensen-Shannon divergence
};

// logits, labels [k, n], probs [k+1, n] → losses [n], and slopes [k+3, n]: max(logits), Σ exp(logits − max),
// the gradient of the logits of all other labels over their probability, and the gradients of the labels.
KERN_OP(divergence);
// logits, labels, weights, slopes → the gradient of Σ weights · losses, in place of logits.
KERN_OP(divergence_grad);

#endif
