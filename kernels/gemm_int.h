// GEMM in integers of 16 bits, and the gradient of its input in 16 or 8 bits, for weights of any type: a tile of the weight
// is dequantised, rounded and packed in scratch memory of the thread. Chunks depend only on the shapes, and sums of a block
// are exact, so results do not depend on the number of threads.
#ifndef KERN_GEMM_INT_H
#define KERN_GEMM_INT_H

#include "kern.h"

// Names the instructions that multiply integers; "" if the processor has no micro-kernel.
const char *kern_integer_instructions(void);
// Reports whether it multiplies 8 bits much faster than 16.
bool kern_has_i8(void);

// Returns the bytes of a matrix of n packed columns, in 8 bits or in 16.
int64_t kern_packed_bytes(int64_t depth, int64_t n, bool i8);

// X or dY [depth, n], F32 or BF16 → its packed columns, I8 [bytes], in 16 or 8 bits.
KERN_OP(pack_int);
KERN_OP(pack_i8);

struct kern_gemm_int_params {
	int32_t first; // operand of the first triple: 1 if the products are added to operand 0
};

// Triples W [k, m] of any type, X [k, n] in F32 or BF16, and X packed → Σ Wᵀ·X [m, n].
KERN_OP(gemm_int);
// Triples W [k, m] of any type, dY [m, n] in F32 or BF16, and dY packed → Σ W·dY [k, n].
KERN_OP(gemm_grad_input_int);
KERN_OP(gemm_grad_input_i8); // dY packed in 8 bits

// Shared with grouped GEMM.

// The product of a weight's matrix with packed columns, and the rows and columns of its result C that are computed.
struct kern_product_int {
	bool grad_input, i8; // with i8 columns are packed in 8 bits
	const struct ggml_tensor *w, *x;
	int64_t w_matrix, x_matrix; // indices of both matrices
	const void *packed;         // the columns of X from n0 on
	int64_t m0, m1, n0, n1;
	float *c; // element [m0, n0]
	int64_t ldc;
	bool accumulate;
};

// Rows and columns of the largest chunk, unless a block of the weight has more rows; and the depths for which its rows are packed
// at once, 256 KiB in 16 bits.
enum { KERN_MC_INT = 128, KERN_NC_INT = 43 * 12, KERN_KC_INT = 1024 };

void kern_multiply_int(const struct kern_product_int *p);

// Packs columns [n0, n1) of a matrix of X; n0 is a multiple of KERN_NR.
void kern_pack_columns(const struct ggml_tensor *x, int64_t matrix, int64_t n0, int64_t n1, bool i8, void *packed);

#endif
