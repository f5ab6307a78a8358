// Attention to a cache whose keys a mask hides, in F32, for many queries: a tile of keys passes a block of queries at a
// time (FlashAttention-2, arXiv 2307.08691), and tiles that no query sees cost nothing.
#ifndef KERN_ATTENTION_CACHED_H
#define KERN_ATTENTION_CACHED_H

#include "kern.h"

struct kern_cached_params {
	float scale, softcap, max_bias; // as in kern_attention_params
	int32_t sinks;                  // operand index; 0 if absent
};

// q F32 [size, n, heads, batch], k [size, keys, groups, batch] and v [value size, keys, groups, batch] in any type, mask F16
// [keys, n, 1, batch]; optional: the sinks [heads] → [value size, heads, n, batch]
KERN_OP(cached_attention);

#endif
