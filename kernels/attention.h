// Causal attention and its gradients, a block of queries of a head at a time: its scores stay in the cache, so that
// memory grows with the number of tokens and no faster. What a block is depends on the shapes alone, and so do the
// results, to the bit.
#ifndef KERN_ATTENTION_H
#define KERN_ATTENTION_H

#include "kern.h"

struct kern_attention_params {
	float scale;
	float softcap;                // what scores are bent to, by its tanh; 0 for nothing
	float max_bias;               // of ALiBi; 0 for none
	int32_t parts;                // of the heads that share keys and values, for the gradients
	int32_t first_visible, sinks; // the operands that these are; 0 for none
};

// q [size, heads, n, batch], k and v [size, groups, n, batch] and, optionally, the first key that each query sees,
// I32 [n, batch], and the sinks [heads] → [size, heads, n, batch]
KERN_OP(causal_attention);
// dy, then the same operands → the gradients of q, of k by each part (to be summed), of v likewise, and of a sink for each
// head by each sequence [heads, batch]. Each is contiguous.
KERN_OP(causal_attention_grad);

#endif
