#define _GNU_SOURCE // for RTLD_DEFAULT

#include "omp_wait.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static void *pass_gate(void *gate) {
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

// Reports whether the process can have n threads more at once. libgomp ends the process when it cannot start one.
static bool can_create_threads(int n) {
	pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
	pthread_t *threads = malloc(n * sizeof *threads);
	int started = 0;
	pthread_mutex_lock(&gate);
	while (threads != NULL && started < n && pthread_create(&threads[started], NULL, pass_gate, &gate) == 0) {
		started++;
	}
	pthread_mutex_unlock(&gate);
	for (int i = 0; i < started; i++) {
		pthread_join(threads[i], NULL);
	}
	free(threads);
	return started == n;
}

static void empty_region(void *data) { (void)data; }

goggml_outcome goggml_force_passive_wait(void *a, void *b) {
	(void)a, (void)b;
	int (*num_procs)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_num_procs");
	void (*parallel)(void (*)(void *), void *, unsigned, unsigned) =
		(void (*)(void (*)(void *), void *, unsigned, unsigned))dlsym(RTLD_DEFAULT, "GOMP_parallel");
	// LLVM's OpenMP has libgomp's functions too, and a wait policy of its own.
	bool libgomp = num_procs != NULL && parallel != NULL && dlsym(RTLD_DEFAULT, "kmp_set_blocktime") == NULL;
	if (!libgomp || !can_create_threads(num_procs())) {
		return (goggml_outcome){0};
	}
	parallel(empty_region, NULL, num_procs(), 0);
	return (goggml_outcome){1};
}
