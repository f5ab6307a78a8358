//go:build ignore

#include "team.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct goggml_team {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	bool freed;
	void (*parallel)(void (*f)(void *), void *data, unsigned threads, unsigned flags);
	int threads;
};

static void goggml_do_nothing(void *data) { (void)data; }

// OpenMP keeps the team of a thread for as long as that lives.
static void *goggml_keep_team(void *arg) {
	goggml_team *t = arg;
	t->parallel(goggml_do_nothing, NULL, t->threads, 0);
	pthread_mutex_lock(&t->mutex);
	while (!t->freed) {
		pthread_cond_wait(&t->changed, &t->mutex);
	}
	pthread_mutex_unlock(&t->mutex);
	pthread_mutex_destroy(&t->mutex);
	pthread_cond_destroy(&t->changed);
	free(t);
	return NULL;
}

goggml_team *goggml_team_new(void) {
	int (*processors)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "omp_get_num_procs");
	void *parallel = dlsym(RTLD_DEFAULT, "GOMP_parallel");
	// LLVM's OpenMP has GNU's functions too, and waits in its own way.
	if (processors == NULL || parallel == NULL || dlsym(RTLD_DEFAULT, "kmp_set_blocktime") != NULL) {
		return NULL;
	}
	goggml_team *t = calloc(1, sizeof *t);
	if (t == NULL) {
		return NULL;
	}
	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->changed, NULL);
	t->parallel = (void (*)(void (*)(void *), void *, unsigned, unsigned))parallel;
	t->threads = processors();
	pthread_t thread;
	if (pthread_create(&thread, NULL, goggml_keep_team, t) != 0) {
		free(t);
		return NULL;
	}
	pthread_detach(thread);
	return t;
}

void goggml_team_free(goggml_team *t) {
	pthread_mutex_lock(&t->mutex);
	t->freed = true;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->mutex);
}
