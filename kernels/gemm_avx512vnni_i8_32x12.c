#if defined(__x86_64__)

#include "gemm_zmm.h"

KERN_GEMM_ZMM(kern_gemm_avx512vnni_i8_32x12, "vpdpbusd")

#endif
