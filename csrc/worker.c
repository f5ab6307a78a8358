//go:build ignore

#include "worker.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t goggml_took, goggml_delayed;

goggml_times goggml_run_times(void) { return (goggml_times){goggml_took, goggml_delayed}; }

static int64_t goggml_now(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static goggml_int goggml_run_timed(goggml_job job) {
	int64_t start = goggml_now();
	goggml_int result = job.run(job.a, job.b);
	goggml_took += goggml_now() - start;
	return result;
}

goggml_int goggml_run(goggml_job job) {
	if (!job.keep_thread) {
		return goggml_run_timed(job);
	}
	goggml_thread thread = goggml_thread_save();
	goggml_int result = goggml_run_timed(job);
	goggml_thread_restore(&thread);
	return result;
}

struct goggml_worker {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	int file;
	goggml_job job; // run is NULL when there is none
	goggml_int result;
	bool freed;
};

static void goggml_tell(int file) {
	char byte = 0;
	while (write(file, &byte, 1) < 0 && errno == EINTR) {
	}
}

// How long the thread whose statistics a file has was ready to run, and had no processor; 0 where that is not known.
static int64_t goggml_waited(int statistics) {
	char text[64];
	ssize_t n = statistics < 0 ? 0 : pread(statistics, text, sizeof text - 1, 0);
	long long ran, waited;
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%lld %lld", &ran, &waited) == 2 ? waited : 0;
}

static void *goggml_work(void *arg) {
	goggml_worker *w = arg;
	int statistics = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
	pthread_mutex_lock(&w->mutex);
	for (;;) {
		while (w->job.run == NULL && !w->freed) {
			pthread_cond_wait(&w->changed, &w->mutex);
		}
		if (w->freed) {
			break;
		}
		pthread_mutex_unlock(&w->mutex);
		int64_t waited = goggml_waited(statistics);
		goggml_int result = goggml_run(w->job); // which stays as it is meanwhile
		goggml_delayed += goggml_waited(statistics) - waited;
		pthread_mutex_lock(&w->mutex);
		w->result = result;
		w->job.run = NULL;
		pthread_cond_signal(&w->changed);
		// Who is told takes the mutex at once.
		pthread_mutex_unlock(&w->mutex);
		goggml_tell(w->file);
		pthread_mutex_lock(&w->mutex);
	}
	pthread_mutex_unlock(&w->mutex);
	pthread_mutex_destroy(&w->mutex);
	pthread_cond_destroy(&w->changed);
	free(w);
	if (statistics >= 0) {
		close(statistics);
	}
	return NULL;
}

goggml_worker *goggml_worker_new(int file) {
	goggml_worker *w = calloc(1, sizeof *w);
	if (w == NULL) {
		return NULL;
	}
	pthread_mutex_init(&w->mutex, NULL);
	pthread_cond_init(&w->changed, NULL);
	w->file = file;
	pthread_t thread;
	if (pthread_create(&thread, NULL, goggml_work, w) != 0) {
		free(w);
		return NULL;
	}
	pthread_detach(thread);
	return w;
}

void goggml_worker_begin(goggml_worker *w, goggml_job job) {
	pthread_mutex_lock(&w->mutex);
	w->job = job;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->mutex);
}

goggml_int goggml_worker_end(goggml_worker *w) {
	pthread_mutex_lock(&w->mutex);
	while (w->job.run != NULL) {
		pthread_cond_wait(&w->changed, &w->mutex);
	}
	goggml_int result = w->result;
	pthread_mutex_unlock(&w->mutex);
	return result;
}

void goggml_worker_free(goggml_worker *w) {
	pthread_mutex_lock(&w->mutex);
	w->freed = true;
	pthread_cond_signal(&w->changed);
	pthread_mutex_unlock(&w->mutex);
}
