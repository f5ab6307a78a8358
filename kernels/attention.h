// Causal attention and its gradients, one block of queries of a head at a time: its scores stay in
// the cache, and memory is linear in the number of tokens. Blocks depend only on the shapes, so the
// results are reproducible to the bit.
#ifndef KERN_ATTENTION_H
#define KERN_ATTENTION_H

#include "kern.h"

struct kern_attention_params {
	float scale;
	float softcap;                // scores become softcap · tanh(score / softcap); 0 means no softcap
	float max_bias;               // of ALiBi; 0 means none
	int32_t parts;                // number of parts of the heads that share keys and values, for the gradients
	int32_t first_visible, hidden, sinks; // operand indices; 0 if absent
};

// The vectors of a head: a matrix [size, n].
struct kern_head {
	float *data;
	int64_t ld;
};

static inline struct kern_head kern_head_of(const struct ggml_tensor *t, int64_t head, int64_t sample) {
	int64_t ld = t->ne[2] > 1 ? (int64_t)(t->nb[2] / sizeof(float)) : t->ne[0];
	return (struct kern_head){(float *)((char *)t->data + head * t->nb[1] + sample * t->nb[3]), ld};
}

// q [size, heads, n, batch], k and v [size, groups, n, batch]; optional: for each query, I32
// [n, batch], the first visible key, and the bounds [from, to) of the hidden keys; the sinks [heads]
// → [size, heads, n, batch]
KERN_OP(causal_attention);
// dy, then the same operands → the gradients of q, of k and of v by part (to be summed), and of the
// sink for each head of each sequence [heads, batch]. Each is contiguous.
KERN_OP(causal_attention_grad);

#endif
