// Causal attention and its gradients on the CPU, some queries of a head at a time: their scores stay in the cache, so
// that memory grows with the number of tokens and no faster. What is computed at a time depends on the shapes alone,
// and so do the results, to the bit.
#ifndef GOGGML_ATTENTION_H
#define GOGGML_ATTENTION_H

#include "blas.h"
#include "ops.h"

// q [size, heads, n, batch], k and v [size, groups, n, batch] → [size, heads, n, batch]
goggml_tensor goggml_op_causal_attention(goggml_a arena, goggml_t q, goggml_t k, goggml_t v, float scale);
// The gradients, given that of the result: those of q, then those of k by so many parts of the heads that share one,
// to be added up, then those of v like them. Each is contiguous.
goggml_tensor goggml_op_causal_attention_back(goggml_a arena, goggml_t dy, goggml_t q, goggml_t k, goggml_t v, float scale, int32_t parts);

#endif
