// GEMM with weights of any type: a tile of the weight is dequantised into scratch memory of the
// thread, to F32, BF16 or F16, and the GEMM library multiplies it. The threads of the CPU backend
// take chunks of the result, so no second thread pool runs. Chunks depend only on the shapes, so
// the results are reproducible to the bit.
#ifndef KERN_GEMM_H
#define KERN_GEMM_H

#include "tile.h"

// Parameters of GEMM, the gradient of its input, and GEMM with LoRA.
struct kern_gemm_params {
	int32_t acc_f16; // multiply and accumulate in F16, except F32 weights
	int32_t h_type;  // of GEMM with LoRA: H is rounded to this type; F32 leaves H unchanged
};

// Pairs W [k, m] of any type, X [k, n] → Σ Wᵀ·X [m, n].
KERN_OP(gemm);
// Pairs W [k, m] of any type, dY [m, n] → Σ W·dY [k, n].
KERN_OP(gemm_grad_input);
// X [k, n], dY [m, n] → X·dYᵀ [k, m].
KERN_OP(gemm_grad_weight);
// dW [k, m] += X·dYᵀ in place.
KERN_OP(accumulate_grad_weight);
// W [k, m] of any type, X [k, n], pairs B [mᵢ, r], packed as in low_rank.h, H [r, n] → Wᵀ·X + B·H.
// The pairs cover consecutive ranges of rows.
KERN_OP(gemm_lora);

// Shared by GEMM, GEMM in F16 and grouped GEMM.

// Chunk of a result [m, n]: rows [m0, m1), columns [n0, n1) of one of its matrices.
struct kern_chunk {
	int64_t m0, m1, n0, n1, matrix;
};

// Returns the tile of a weight that a chunk multiplies for depths [k0, k1) of the sum: with
// grad_input the depths are columns of the weight.
const void *kern_chunk_tile(const struct ggml_tensor *w, const struct kern_chunk *chunk, enum ggml_type type,
	bool grad_input, int64_t k0, int64_t k1, int64_t *ld);

// Adds a pair's product to an accumulator, or stores it there: in F32, of operands in the type of
// X.
void kern_accumulate(const struct ggml_tensor *w, const struct ggml_tensor *x, const struct kern_accumulator *acc,
	bool grad_input, const struct kern_chunk *chunk, bool accumulate);

// kern_accumulate with acc_f16, for X in F32.
void kern_accumulate_f16(const struct ggml_tensor *w, const struct ggml_tensor *x, const struct kern_accumulator *acc,
	bool grad_input, const struct kern_chunk *chunk, bool accumulate);

// Sizes of the largest chunk, and the depth of a tile, of a GEMM in F16.
enum { KERN_MC_F16 = 512, KERN_NC_F16 = 256, KERN_KC_F16 = 256 };

#endif
