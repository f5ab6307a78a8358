#if defined(__x86_64__)
#define WIDTH 16
#define TOKENS 4
#define KERN_SCAN_NEXT __attribute__((target("avx512f,avx512vl,avx512dq,fma"))) kern_scan_avx512
#include "selective_scan_body.h"
#endif
