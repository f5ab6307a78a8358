//go:build ignore

#include "team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void goggml_do_nothing(void *data) { (void)data; }

static void *goggml_pass(void *gate) {
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

// Whether the process can have n threads more: OpenMP ends it when it cannot.
static bool goggml_can_have(int n) {
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_t *threads = malloc(n * sizeof *threads);
	int started = 0;
	pthread_mutex_lock(&gate);
	while (threads != NULL && started < n && pthread_create(&threads[started], NULL, goggml_pass, &gate) == 0) {
		started++;
	}
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < started; i++) {
		pthread_join(threads[i], NULL);
	}
	free(threads);
	return started == n;
}

goggml_int goggml_take_team(void *a, void *b) {
	(void)a, (void)b;
	int (*processors)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_num_procs");
	void *parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
	// LLVM's OpenMP has GNU's functions too, and waits in its own way.
	bool taken = false;
	if (processors != NULL && parallel != NULL && dlsym(RTLD_DEFAULT, "kmp_set_blocktime") == NULL && goggml_can_have(processors())) {
		((void (*)(void (*)(void *), void *, unsigned, unsigned))parallel)(goggml_do_nothing, NULL, processors(), 0);
		taken = true;
	}
	return (goggml_int){taken};
}
