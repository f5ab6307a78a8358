// Elementwise ops of training, vectorised, which ggml computes one element at a time.
#ifndef KERN_ELEMENTWISE_H
#define KERN_ELEMENTWISE_H

#include "kern.h"

// A in F32 → A in BF16.
KERN_OP(cast_bf16);
// gelu(gate) · up, with gelu of and in F16.
KERN_OP(geglu);
// up, in place, becomes the gradient of gate in act(gate) · up, for silu and for gelu: up, gate, dy.
KERN_OP(swiglu_grad);
KERN_OP(geglu_grad);

// Rounds n elements to even. A NaN stays one.
void kern_round_bf16(const float *from, uint16_t *to, int64_t n);

// A thread's share [from, to) of n elements: whole steps of the vectorised loops.
struct kern_share {
	int64_t from, to;
};
struct kern_share kern_share_of(int64_t n, int ith, int nth);

#endif
