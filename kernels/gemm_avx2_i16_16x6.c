#if defined(__x86_64__)

#include "gemm_ymm.h"

// The instructions are written out, since GCC reorders intrinsics so that sums do not fit in the registers.
#define KERN_ADD(j, _) { \
		__m256i lower_product, upper_product; \
		__asm__("vpbroadcastd %6, %3\n\t" \
			"vpmaddwd %3, %4, %2\n\t" \
			"vpmaddwd %3, %5, %3\n\t" \
			"vpaddd %2, %0, %0\n\t" \
			"vpaddd %3, %1, %1" \
			: "+x"(lower##j), "+x"(upper##j), "=&x"(lower_product), "=&x"(upper_product) \
			: "x"(first), "x"(second), "m"(q[j])); \
	}

KERN_GEMM_YMM(kern_gemm_avx2_i16_16x6, KERN_ADD, )

#endif
