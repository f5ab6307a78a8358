#define _GNU_SOURCE // RTLD_DEFAULT

#include "chunks.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>

// The counter of taken chunks is the last slot of op_params, 0 between computations.
enum { KERN_CHUNKS_TAKEN = GGML_MAX_OP_PARAMS / sizeof(int32_t) - 1 };

// The op whose chunk queue this thread is consuming; dst is NULL outside of one.
static _Thread_local struct {
	struct ggml_tensor *dst;
	int64_t count;
	int nth;
} kern_queue;

int64_t kern_next_chunk(struct ggml_tensor *dst, int64_t count, int nth) {
	_Atomic int32_t *taken = (_Atomic int32_t *)&dst->op_params[KERN_CHUNKS_TAKEN];
	int64_t chunk = atomic_fetch_add_explicit(taken, 1, memory_order_relaxed);
	if (chunk == count + nth - 1) { // the last call of this computation
		atomic_store_explicit(taken, 0, memory_order_relaxed);
	}
	kern_queue.dst = chunk < count ? dst : NULL;
	kern_queue.count = count;
	kern_queue.nth = nth;
	return chunk < count ? chunk : -1;
}

// A counter that is not 0 again would make the next computation skip chunks.
static void kern_drain_chunks(void) {
	while (kern_queue.dst != NULL) {
		kern_next_chunk(kern_queue.dst, kern_queue.count, kern_queue.nth);
	}
}

static ggml_abort_callback_t kern_outer_abort;
static void (*kern_outer_terminate)(void);

static void kern_on_abort(const char *message) {
	kern_drain_chunks();
	if (kern_outer_abort != NULL) {
		kern_outer_abort(message);
	}
}

static void kern_on_terminate(void) {
	kern_drain_chunks();
	if (kern_outer_terminate != NULL) {
		kern_outer_terminate();
	}
	abort();
}

void kern_guard_chunks(void) {
	kern_outer_abort = ggml_set_abort_callback(kern_on_abort);
	// std::set_terminate, if a C++ library is loaded.
	void (*(*set_terminate)(void (*)(void)))(void) = (void (*(*)(void (*)(void)))(void))dlsym(RTLD_DEFAULT, "_ZSt13set_terminatePFvvE");
	if (set_terminate != NULL) {
		kern_outer_terminate = set_terminate(kern_on_terminate);
	}
}
