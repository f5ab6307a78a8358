// GEMV: weights by few columns, as in decoding. Reading the weights takes all of the time.
#ifndef KERN_GEMV_H
#define KERN_GEMV_H

#include "kern.h"

// Sets the CPU plugin's ggml_get_type_traits_cpu; NULL if the plugin does not export it.
void kern_gemv_open(const struct ggml_type_traits_cpu *(*traits)(enum ggml_type type));
// Reports whether weights of the type have a dot product.
bool kern_gemv_takes(enum ggml_type type);
// Reports whether a row of the type is multiplied by several columns at once.
bool kern_gemv_batched(enum ggml_type type);

// X [k, n] in F32, weights W [k, mᵢ] → [Σ mᵢ, n]. Dimensions 2 and 3, equal in all operands, count
// matrices.
KERN_OP(gemv);
// W [k, m, experts] of any type, X [k, used, n] or [k, 1, n] in F32, ids [used, n] → W_idᵀ·X [m, used, n].
KERN_OP(grouped_gemv);

#endif
