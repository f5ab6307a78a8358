// Tasks of an op that the threads of a computation take one by one.
#ifndef GOGGML_TASKS_H
#define GOGGML_TASKS_H

#include "guard.h"

// The next of so many tasks of an op that is being computed, or -1 when there are no more. Each of the workers asks until then.
int64_t goggml_next_task(struct ggml_tensor *dst, int64_t count, int workers);

// What a thread does that leaves an op before its end: tasks that nobody asked for would be missing from the next computation.
void goggml_abandon_tasks(void);

#endif
