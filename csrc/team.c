//go:build ignore

#include "team.h"

#include <dlfcn.h>

static void goggml_do_nothing(void *data) { (void)data; }

goggml_int goggml_take_team(void *a, void *b) {
	(void)a, (void)b;
	int (*processors)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_num_procs");
	void *parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
	// LLVM's OpenMP has GNU's functions too, and waits in its own way.
	if (processors != NULL && parallel != NULL && dlsym(RTLD_DEFAULT, "kmp_set_blocktime") == NULL) {
		((void (*)(void (*)(void *), void *, unsigned, unsigned))parallel)(goggml_do_nothing, NULL, processors(), 0);
	}
	return (goggml_int){0};
}
