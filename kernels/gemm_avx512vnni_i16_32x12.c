#if defined(__x86_64__)

#include "gemm_zmm.h"

KERN_GEMM_ZMM(kern_gemm_avx512vnni_i16_32x12, "vpdpwssd")

#endif
