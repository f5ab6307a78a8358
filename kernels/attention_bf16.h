// Causal attention and its gradients with products of operands rounded to BF16, and sums and softmax in F32
// (FlashAttention-2, arXiv 2307.08691): tiles of keys pass a block of queries one at a time, so scores never leave the
// cache, and those tiles that no query sees are not touched. Blocks and tiles depend only on the shapes.
#ifndef KERN_ATTENTION_BF16_H
#define KERN_ATTENTION_BF16_H

#include "attention.h"

// The operands of causal_attention → its result [size, heads, n, batch], followed by the binary logarithm of each
// query's sum of exponentials [n, heads, batch].
KERN_OP(causal_attention_bf16);
// dy, what causal_attention_bf16 returned, and its operands → as causal_attention_grad.
KERN_OP(causal_attention_bf16_grad);

#endif
