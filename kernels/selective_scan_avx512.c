#if defined(__x86_64__)
#define WIDTH 16
#define TOKENS 4
#define KERN_SCAN_NAME kern_scan_avx512
#define KERN_SCAN_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,fma")))
#include "selective_scan_body.h"
#endif
