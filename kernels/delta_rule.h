// The gated delta rule and its gradients, token by token: the columns of a state are independent, and a panel of them stays
// in the cache from the first token to the last.
#ifndef KERN_DELTA_RULE_H
#define KERN_DELTA_RULE_H

#include "kern.h"

struct kern_delta_rule_params {
	int32_t starts; // the operand with the first token of each token's sample; 0 for none
	int32_t read;   // the operand with keys that read the state; 0: k
};

// q, k, v, g, beta, starts, read → y [size, heads, n, rows].
KERN_OP(gated_delta_rule);
// dy, then these → the gradients of q, k, v, g, beta and read, one after the other.
KERN_OP(gated_delta_rule_grad);

#endif
