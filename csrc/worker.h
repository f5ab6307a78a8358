// Where computations run: on the calling thread, or on one of their own.
#ifndef GOGGML_WORKER_H
#define GOGGML_WORKER_H

#include "guard.h"

// A job is a function that computes, with what it takes.
typedef goggml_int (*goggml_function)(void *, void *);
typedef struct {
	goggml_function run;
	void *a, *b;
	bool keep_thread; // its processors and priority are afterwards as before
} goggml_job;

goggml_int goggml_run(goggml_job job);
// Of all jobs so far, ns: the time that they took, and of it, the time in which a worker was ready and had no processor.
typedef struct {
	int64_t took, delayed;
} goggml_times;
goggml_times goggml_run_times(void);

typedef struct goggml_worker goggml_worker;

// Starts a thread that works; NULL when there can be no more. It writes a byte
// to the file when a job is done.
goggml_worker *goggml_worker_new(int file);
void goggml_worker_begin(goggml_worker *worker, goggml_job job);
// The result of the job; waits for it.
goggml_int goggml_worker_end(goggml_worker *worker);
// Ends the thread, which has nothing to do.
void goggml_worker_free(goggml_worker *worker);

#endif
