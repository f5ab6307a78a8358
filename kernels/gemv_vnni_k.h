// Dot products of super-block types with AVX512-VNNI.
#ifndef KERN_GEMV_VNNI_K_H
#define KERN_GEMV_VNNI_K_H

#include "blocks.h"
#include "gemv_vnni.h"

enum { KERN_SIXTEENS = KERN_SUPER_BLOCK / 16 };

// The part of a packed column for one super-block, with the sums of its elements: a minimum or zero
// point, which is subtracted from the elements of a row, is shared by 16 of them.
struct kern_super_column {
	_Alignas(64) int8_t q[KERN_SUPER_BLOCK];
	_Alignas(64) int16_t sums[KERN_SIXTEENS];
	float d;
};

size_t kern_super_size(int64_t k);
// Quantises like Q8_K.
void kern_pack_super(const float *x, void *column, int64_t k);

// All take the same packed columns.
extern const struct kern_gemv_kernel kern_vnni_q4_k, kern_vnni_q5_k, kern_vnni_q6_k;

#endif
