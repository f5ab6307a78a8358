//go:build ignore

#include "tasks.h"
#include "ops.h"

#include <stdatomic.h>

// Equal shares would make all wait for the slowest processor: they are not equally fast at all times, and other
// programs use them too.
int64_t goggml_next_task(struct ggml_tensor *dst, int64_t count, int workers) {
	_Atomic int32_t *taken = (_Atomic int32_t *)&dst->op_params[TASKS_TAKEN];
	int64_t task = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
	if (task == count + workers - 1) { // nobody will ask again before the next computation
		atomic_store_explicit(taken, 0, memory_order_relaxed);
	}
	return task < count ? task : -1;
}
