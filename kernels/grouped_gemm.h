// Grouped GEMM: each column is multiplied with the matrix of its expert. The columns of an expert
// are gathered, so that its weights are dequantised once for all of them.
#ifndef KERN_GROUPED_GEMM_H
#define KERN_GROUPED_GEMM_H

#include "kern.h"

// W [k, m, experts] of any type, X [k, used, n] or [k, 1, n], ids [used, n] → W_idᵀ·X [m, used, n].
KERN_OP(grouped_gemm);
// W [k, m, experts] of any type, dY [m, used, n], ids [used, n] → W_id·dY [k, used, n].
KERN_OP(grouped_gemm_grad_input);

struct kern_grouped_int_params {
	int32_t least; // columns of an expert from which on they are multiplied in integers
};

// The same in integers, as gemm_int.h describes, for experts with enough columns.
KERN_OP(grouped_gemm_int);
KERN_OP(grouped_gemm_grad_input_int);
KERN_OP(grouped_gemm_grad_input_i8);

// dW [k, m, experts] += X·dYᵀ in place, for X [k, used, n] or [k, 1, n], dY [m, used, n], ids
// [used, n].
KERN_OP(accumulate_grouped_grad_weight);

#endif
