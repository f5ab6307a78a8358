// The gated delta rule by chunks of tokens (arXiv 2406.06484): matrix products inside a chunk, and a state from one chunk to
// the next. It needs a GEMM library, and one decay for all rows of a state.
#ifndef KERN_DELTA_RULE_CHUNKS_H
#define KERN_DELTA_RULE_CHUNKS_H

#include "kern.h"
#include "vector.h"

// The operands of one head of a row. The strides are distances of tokens, also in y and dy, and rates counts the numbers g of a
// token.
struct kern_delta_head {
	const float *q, *k, *read, *v, *g, *beta, *dy;
	const int32_t *starts; // NULL: the row is one sample
	const float *state;    // before the first token, [keys, values]; NULL: 0
	float *after;          // where the state after the last token goes; NULL: nowhere
	int64_t size, n, q_stride, k_stride, read_stride, v_stride, y_stride, number_stride, rates;
	bool bf16;  // products of chunks round their operands to BF16
	float unit; // chunks divide q and k by √(‖x‖² + unit); 0: they do not
};

// Where the gradients of a head go; g is one number of a token, or one for each row of the state.
struct kern_delta_grads {
	float *q, *k, *g, *beta; // q and k are added to
	float *read;             // added to; NULL if k reads
	float *v;
	int64_t key_stride, read_stride, v_stride; // distances of tokens of q and k, of read, and of v
};

// Reports whether token i begins a sample.
static inline bool kern_delta_starts(const struct kern_delta_head *h, int64_t i) {
	return (i == 0 && h->state == NULL) || (h->starts != NULL && h->starts[i] >= i);
}

// Writes y.
void kern_delta_chunks(const struct kern_delta_head *h, float *y);
void kern_delta_chunks_back(const struct kern_delta_head *h, struct kern_delta_grads to);

#endif
