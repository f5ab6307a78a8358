// Elementwise ops of training, vectorised; ggml computes them one element at a time.
#ifndef KERN_ELEMENTWISE_H
#define KERN_ELEMENTWISE_H

#include "kern.h"

// A in F32 → A in BF16.
KERN_OP(cast_bf16);
// gelu(gate) · up; argument and result of gelu are rounded to F16.
KERN_OP(geglu);
// up, gate, dy → the gradient of gate in act(gate) · up, in place of up, for silu and gelu.
KERN_OP(swiglu_grad);
KERN_OP(geglu_grad);

// Rounds n elements to even. NaN stays NaN.
void kern_round_bf16(const float *from, uint16_t *to, int64_t n);

// A thread's share [from, to) of n elements: whole steps of the vectorised loops.
struct kern_share {
	int64_t from, to;
};
struct kern_share kern_share_of(int64_t n, int ith, int nth);

#endif
