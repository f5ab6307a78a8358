// Low-rank updates, as in LoRA adapters: their sums are too short for ggml's own products.
#ifndef KERN_LORA_H
#define KERN_LORA_H

#include "kern.h"

struct kern_lora_params {
	int64_t first;  // first row of Y of the first pair
	int32_t h_type; // H is rounded to this type; F32 leaves H unchanged
};

// Y [m, n] += B·H, in place, for pairs of B [mᵢ, r], packed as in low_rank.h, and H [r, n], with any leading dimension. The
// pairs cover consecutive ranges of Y's rows.
KERN_OP(lora_update);

#endif
