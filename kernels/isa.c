#include "isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool kern_isa_allowed(const char *const *names) {
	const char *most = getenv("ONEDNN_MAX_CPU_ISA");
	for (; most != NULL && *names != NULL; names++) {
		if (strncasecmp(most, *names, strlen(*names)) == 0) {
			return true;
		}
	}
	return most == NULL;
}

#if defined(__x86_64__)

static bool kern_avx512, kern_avx2, kern_f16c;

static void kern_find_isa(void) {
	kern_avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && KERN_ISA_ALLOWED("AVX512_CORE");
	kern_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && KERN_ISA_ALLOWED("AVX512_CORE", "AVX2");
	kern_f16c = kern_avx2 && __builtin_cpu_supports("f16c");
}

static bool kern_isa(const bool *available) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_find_isa);
	return *available;
}

bool kern_isa_avx512(void) { return kern_isa(&kern_avx512); }
bool kern_isa_avx2(void) { return kern_isa(&kern_avx2); }
bool kern_isa_f16c(void) { return kern_isa(&kern_f16c); }

#else

bool kern_isa_avx512(void) { return false; }
bool kern_isa_avx2(void) { return false; }
bool kern_isa_f16c(void) { return false; }

#endif
