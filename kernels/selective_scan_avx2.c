#if defined(__x86_64__)
#define WIDTH 8
#define TOKENS 2
#define KERN_SCAN_NEXT __attribute__((target("avx2,fma"))) kern_scan_avx2
#include "selective_scan_body.h"
#endif
