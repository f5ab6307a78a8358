#define _GNU_SOURCE // for RTLD_DEFAULT

#include "omp_wait.h"
#include "limits.h"

#include <dlfcn.h>

static void empty_region(void *data) { (void)data; }

goggml_outcome goggml_force_passive_wait(void *a, void *b) {
	(void)a, (void)b;
	int (*num_procs)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_num_procs");
	void (*parallel)(void (*)(void *), void *, unsigned, unsigned) =
		(void (*)(void (*)(void *), void *, unsigned, unsigned))dlsym(RTLD_DEFAULT, "GOMP_parallel");
	// LLVM's OpenMP also has libgomp's functions, but its own wait policy.
	bool libgomp = num_procs != NULL && parallel != NULL && dlsym(RTLD_DEFAULT, "kmp_set_blocktime") == NULL;
	if (!libgomp || !goggml_can_start_threads(num_procs())) {
		return (goggml_outcome){0};
	}
	parallel(empty_region, NULL, num_procs(), 0);
	return (goggml_outcome){1};
}
