// An operating-system thread that runs C functions, one after the other.
#ifndef GOGGML_THREAD_H
#define GOGGML_THREAD_H

#include <stdbool.h>
#include <stdint.h>

// What a function that computes returns: a value, or the message of a failure that made it leave before its end. The
// message is allocated by malloc. The same as goggml_int in csrc/guard.h.
typedef struct { int64_t value; char *error; } goggml_outcome;

typedef goggml_outcome (*goggml_function)(void *, void *);

typedef struct {
	goggml_function function;
	void *a, *b; // its arguments
	bool restore_affinity;
} goggml_job;

typedef struct {
	goggml_outcome outcome;
	int64_t elapsed, run_queue_wait; // ns; the wait is 0 where the system does not know it
} goggml_job_result;

// Runs a job on the calling thread, whose run-queue wait is not measured.
goggml_job_result goggml_job_run(goggml_job job);

typedef struct goggml_thread goggml_thread;

// Starts a thread, which writes a byte to the file descriptor at the end of each job. NULL when there can be no more.
goggml_thread *goggml_thread_new(int notify);
void goggml_thread_start(goggml_thread *thread, goggml_job job);
// Waits for the end of the job.
goggml_job_result goggml_thread_wait(goggml_thread *thread);
// Ends the thread, which has no job.
void goggml_thread_free(goggml_thread *thread);

#endif
