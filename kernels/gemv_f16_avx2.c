#if defined(__x86_64__)
#define WIDTH 8
#define ROWS 2
#define KERN_F16_NAME kern_multiply_f16_avx2
#define KERN_F16_TARGET __attribute__((target("avx2,fma,f16c")))
#define KERN_F16_LOAD(from) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(from)))
#include "gemv_f16_body.h"
#endif
