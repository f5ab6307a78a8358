//go:build ignore

#include "tasks.h"
#include "ops.h"

#include <stdatomic.h>

// The tasks of which the thread asked for one, and has not heard yet that there are no more.
static _Thread_local struct { struct ggml_tensor *dst; int64_t count; int workers; } goggml_asking;

// Equal shares would make all wait for the slowest processor: they are not equally fast at all times, and other
// programs use them too.
int64_t goggml_next_task(struct ggml_tensor *dst, int64_t count, int workers) {
	_Atomic int32_t *taken = (_Atomic int32_t *)&dst->op_params[TASKS_TAKEN];
	int64_t task = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
	if (task == count + workers - 1) { // nobody will ask again before the next computation
		atomic_store_explicit(taken, 0, memory_order_relaxed);
	}
	goggml_asking.dst = task < count ? dst : NULL;
	goggml_asking.count = count;
	goggml_asking.workers = workers;
	return task < count ? task : -1;
}

void goggml_abandon_tasks(void) {
	while (goggml_asking.dst != NULL) {
		goggml_next_task(goggml_asking.dst, goggml_asking.count, goggml_asking.workers);
	}
}
