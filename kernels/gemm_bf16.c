#include "gemm_bf16.h"
#include "library.h"

#if defined(__x86_64__)

// The GEMM library knows whether AMX is allowed. Without it Intel's instructions for BF16 are slower than those for F32.
bool kern_has_gemm_bf16(void) {
	__builtin_cpu_init();
	return kern_library_fast_bf16() && __builtin_cpu_supports("avx512bf16");
}

void kern_gemm_bf16(const struct kern_gemm_bf16 *g, const uint32_t *a, const uint32_t *b, float *c) {
	(kern_library_amx() ? kern_gemm_amxbf16_32x32 : kern_gemm_avx512bf16_64x4)(g, a, b, c);
}

#else

bool kern_has_gemm_bf16(void) { return false; }

#endif
