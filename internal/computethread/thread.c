#include "thread.h"
#include "affinity.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

goggml_job_result goggml_job_run(goggml_job job) {
	goggml_affinity affinity = {0};
	if (job.restore_affinity) {
		affinity = goggml_affinity_save();
	}
	int64_t start = now();
	goggml_outcome outcome = job.function(job.a, job.b);
	int64_t elapsed = now() - start;
	goggml_affinity_restore(&affinity);
	return (goggml_job_result){outcome, elapsed, 0};
}

struct goggml_thread {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int notify;
	goggml_job job; // function is NULL if there is no job
	goggml_job_result result;
	bool freed;
};

// Returns the run-queue wait of a thread, from its schedstat file: how long it was ready to run
// without a processor.
static int64_t run_queue_wait(int schedstat) {
	char text[64];
	ssize_t n = schedstat < 0 ? 0 : pread(schedstat, text, sizeof text - 1, 0);
	long long ran, waited;
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%lld %lld", &ran, &waited) == 2 ? waited : 0;
}

static void notify(int file) {
	char byte = 0;
	while (write(file, &byte, 1) < 0 && errno == EINTR) {
	}
}

static void *run_jobs(void *arg) {
	goggml_thread *t = arg;
	int schedstat = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	pthread_mutex_lock(&t->mutex);
	for (;;) {
		while (t->job.function == NULL && !t->freed) {
			pthread_cond_wait(&t->changed, &t->mutex);
		}
		if (t->freed) {
			break;
		}
		pthread_mutex_unlock(&t->mutex);
		int64_t waited = run_queue_wait(schedstat);
		goggml_job_result result = goggml_job_run(t->job); // t->job does not change meanwhile
		result.run_queue_wait = run_queue_wait(schedstat) - waited;
		pthread_mutex_lock(&t->mutex);
		t->result = result;
		t->job.function = NULL;
		pthread_cond_signal(&t->changed);
		// The notified thread locks the mutex at once.
		pthread_mutex_unlock(&t->mutex);
		notify(t->notify);
		pthread_mutex_lock(&t->mutex);
	}
	pthread_mutex_unlock(&t->mutex);
	pthread_mutex_destroy(&t->mutex);
	pthread_cond_destroy(&t->changed);
	free(t);
	if (schedstat >= 0) {
		close(schedstat);
	}
	return NULL;
}

goggml_thread *goggml_thread_new(int notify) {
	goggml_thread *t = calloc(1, sizeof *t);
	if (t == NULL) {
		return NULL;
	}
	pthread_mutex_init(&t->mutex, NULL);
	pthread_cond_init(&t->changed, NULL);
	t->notify = notify;
	pthread_t id;
	if (pthread_create(&id, NULL, run_jobs, t) != 0) {
		free(t);
		return NULL;
	}
	pthread_detach(id);
	return t;
}

void goggml_thread_start(goggml_thread *t, goggml_job job) {
	pthread_mutex_lock(&t->mutex);
	t->job = job;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->mutex);
}

goggml_job_result goggml_thread_wait(goggml_thread *t) {
	pthread_mutex_lock(&t->mutex);
	while (t->job.function != NULL) {
		pthread_cond_wait(&t->changed, &t->mutex);
	}
	goggml_job_result result = t->result;
	pthread_mutex_unlock(&t->mutex);
	return result;
}

void goggml_thread_free(goggml_thread *t) {
	pthread_mutex_lock(&t->mutex);
	t->freed = true;
	pthread_cond_signal(&t->changed);
	pthread_mutex_unlock(&t->mutex);
}
