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

static bool kern_avx512;

static void kern_find_avx512(void) {
	kern_avx512 = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && KERN_ISA_ALLOWED("AVX512_CORE");
}

bool kern_isa_avx512(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_find_avx512);
	return kern_avx512;
}

#else

bool kern_isa_avx512(void) { return false; }

#endif
