// The gated delta rule and its gradients. Token by token the columns of a state are independent, and a panel of them stays in
// the cache from the first token to the last. With a GEMM library and one decay for all rows of a state, chunks of tokens
// (delta_rule_chunks.h) are faster.
#ifndef KERN_DELTA_RULE_H
#define KERN_DELTA_RULE_H

#include "kern.h"

struct kern_delta_rule_params {
	int32_t starts; // the operand with the first token of each token's sample; 0 for none
	int32_t read;   // the operand with keys that read the state; 0: k
	int32_t state;  // the operand with states before the first tokens; 0: the states are 0 and not returned
	int32_t chunks; // not 0: by chunks of tokens
	int32_t bf16;   // not 0: chunks multiply in BF16
	int32_t beside; // not 0: q, k and v of a token lie side by side, and their gradients do
	float unit;     // not 0: chunks divide q and k by √(‖x‖² + unit)
};

// q, k, v, g, beta, starts, read, state → y [size, heads, n, rows], then the states after the last tokens if there were any before.
KERN_OP(gated_delta_rule);
// dy, then these → the gradients of q, k, v, g, beta and read, one after the other; of q, k and v for each token if they lie so.
KERN_OP(gated_delta_rule_grad);

#endif
