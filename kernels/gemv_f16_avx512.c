#if defined(__x86_64__)
#define WIDTH 16
#define ROWS 4
#define KERN_F16_NAME kern_multiply_f16_avx512
#define KERN_F16_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,fma")))
#define KERN_F16_LOAD(from) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(from)))
#include "gemv_f16_body.h"
#endif
