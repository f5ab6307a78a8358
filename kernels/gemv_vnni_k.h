// Dot products of super-block types with AVX512-VNNI.
#ifndef KERN_GEMV_VNNI_K_H
#define KERN_GEMV_VNNI_K_H

#include "gemv_vnni.h"

// All take the same packed columns.
extern const struct kern_vnni kern_vnni_q4_k, kern_vnni_q5_k, kern_vnni_q6_k;

#endif
