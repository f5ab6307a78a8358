// Dot products of super-block types with AVX512-VNNI.
#ifndef KERN_GEMV_VNNI_K_H
#define KERN_GEMV_VNNI_K_H

#include "gemv_super.h"
#include "gemv_vnni.h"

size_t kern_super_size(int64_t k);
// Quantises like Q8_K.
void kern_pack_super(const float *x, void *column, int64_t k);

// All take the same packed columns.
extern const struct kern_gemv_kernel kern_vnni_q4_k, kern_vnni_q5_k, kern_vnni_q6_k;

#endif
