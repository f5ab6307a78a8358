#if defined(__x86_64__)

#include "gemm_ymm.h"

KERN_GEMM_AVXVNNI(kern_gemm_avxvnni_i16_16x6, "vpdpwssd")

#endif
