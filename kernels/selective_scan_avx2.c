#if defined(__x86_64__)
#define WIDTH 8
#define TOKENS 2
#define KERN_SCAN_NAME kern_scan_avx2
#define KERN_SCAN_TARGET __attribute__((target("avx2,fma")))
#include "selective_scan_body.h"
#endif
