#include "limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

static void *pass_gate(void *gate) {
	pthread_mutex_lock(gate);
	pthread_mutex_unlock(gate);
	return NULL;
}

bool goggml_can_start_threads(int n) {
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

bool goggml_can_map(size_t bytes) {
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
	return p != MAP_FAILED && munmap(p, bytes) == 0;
}
