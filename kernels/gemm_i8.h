// The gradient of GEMM's input in 8-bit integers, for weights of any type: a tile of the weight is dequantised, rotated,
// rounded and packed in scratch memory of the thread. Chunks depend only on the shapes, and sums of a block are exact, so
// results do not depend on the number of threads.
#ifndef KERN_GEMM_I8_H
#define KERN_GEMM_I8_H

#include "kern.h"

// Reports whether the processor has a micro-kernel.
bool kern_has_i8(void);
// Names the instructions that multiply 8-bit integers; "" if there are none.
const char *kern_i8_name(void);

// Returns the bytes of a matrix of n columns of a depth in 8 bits.
int64_t kern_packed_bytes_i8(int64_t depth, int64_t n);

// X [depth, n], F32 or BF16 → its packed columns, I8 [bytes].
KERN_OP(pack_i8);

struct kern_gemm_i8_params {
	int32_t first; // operand of the first triple: 1 if the products are added to operand 0
};

// Triples W [k, m] of any type, dY [m, n] in F32 or BF16, and dY packed → Σ W·dY [k, n].
KERN_OP(gemm_grad_input_i8);

#endif
