#include "onemkl.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool kern_has_avx512_fp16(void) {
	enum { FEATURES = 7, AVX512_FP16 = 1 << 23 };
	unsigned a, b, c, d;
	// The second test reports that the system also saves the registers.
	return __get_cpuid_count(FEATURES, 0, &a, &b, &c, &d) && (d & AVX512_FP16) && __builtin_cpu_supports("avx512bw");
}
#else
static bool kern_has_avx512_fp16(void) { return false; }
#endif

struct kern_onemkl_version {
	int major, minor, update;
	char *status, *build, *processor, *platform;
};

kern_hgemm kern_onemkl_open(void *library, char *text, size_t size) {
	enum { SEQUENTIAL = 1, INT_OF_32_BITS = 0 };
	int (*set_threading)(int) = (int (*)(int))dlsym(library, "MKL_Set_Threading_Layer");
	int (*set_interface)(int) = (int (*)(int))dlsym(library, "MKL_Set_Interface_Layer");
	void (*get_version)(struct kern_onemkl_version *) = (void (*)(struct kern_onemkl_version *))dlsym(library, "MKL_Get_Version");
	if (set_threading == NULL || set_interface == NULL || get_version == NULL) {
		return NULL;
	}
	set_threading(SEQUENTIAL); // must come first, with the next call
	set_interface(INT_OF_32_BITS);
	struct kern_onemkl_version v;
	get_version(&v);
	kern_hgemm hgemm = kern_has_avx512_fp16() ? (kern_hgemm)dlsym(library, "cblas_hgemm") : NULL;
	snprintf(text, size, "oneMKL %d.%d.%d%s", v.major, v.minor, v.update, hgemm == NULL ? "" : " with AVX512-FP16");
	return hgemm;
}
