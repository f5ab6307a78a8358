// An operating-system thread that runs C functions, one after another.
#ifndef GOGGML_THREAD_H
#define GOGGML_THREAD_H

#include <stdbool.h>
#include <stdint.h>

// The result of a function that computes: a value, or the message of a failure that stopped it. The
// message is allocated by malloc. Same as goggml_int in csrc/guard.h.
typedef struct { int64_t value; char *error; } goggml_outcome;

typedef goggml_outcome (*goggml_function)(void *, void *);

typedef struct {
	goggml_function function;
	void *a, *b; // its arguments
	bool restore_affinity;
} goggml_job;

typedef struct {
	goggml_outcome outcome;
	int64_t elapsed, run_queue_wait; // ns; the wait is 0 if the system does not report it
} goggml_job_result;

// Runs a job on the calling thread, whose run-queue wait is not measured.
goggml_job_result goggml_job_run(goggml_job job);

typedef struct goggml_thread goggml_thread;

// Starts a thread, which writes a byte to the file descriptor at the end of each job. Returns NULL
// if no thread can start.
goggml_thread *goggml_thread_new(int notify);
void goggml_thread_start(goggml_thread *thread, goggml_job job);
// Waits for the end of the job.
goggml_job_result goggml_thread_wait(goggml_thread *thread);
// Ends the thread, which must have no job.
void goggml_thread_free(goggml_thread *thread);

#endif
