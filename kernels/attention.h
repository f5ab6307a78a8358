// Causal attention and its gradients, one block of queries of a head at a time: its scores stay in
// the cache, and memory is linear in the number of tokens. Blocks depend only on the shapes, so the
// results are reproducible to the bit.
#ifndef KERN_ATTENTION_H
#define KERN_ATTENTION_H

#include "head.h"

struct kern_attention_params {
	float scale;
	float softcap;                // scores become softcap · tanh(score / softcap); 0 means no softcap
	float max_bias;               // of ALiBi; 0 means none
	int32_t parts;                // number of parts of the heads that share keys and values, for the gradients
	int32_t first_visible, hidden, sinks; // operand indices; 0 if absent
};

// q [size, heads, n, batch], k and v [size, groups, n, batch]; optional: for each query, I32
// [n, batch], the first visible key, and the bounds [from, to) of the hidden keys; the sinks [heads]
// → [size, heads, n, batch]
KERN_OP(causal_attention);
// dy, then the same operands → the gradients of q, of k and of v by part (to be summed), and of the
// sink for each head of each sequence [heads, batch]. Each is contiguous.
KERN_OP(causal_attention_grad);

#endif
