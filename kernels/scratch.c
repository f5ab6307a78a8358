#include "scratch.h"
#include "kern.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#ifdef __linux__
#include <sys/mman.h>
#endif

enum { KERN_PAGE = 4096, KERN_HUGE_PAGE = 2 << 20 };

struct kern_thread_scratch {
	struct {
		void *data;
		size_t size;
	} block[KERN_SCRATCH_USES];
};

static pthread_key_t kern_scratch_key;
static _Atomic int64_t kern_scratch_total;

int64_t kern_scratch_bytes(void) { return kern_scratch_total; }

static void kern_free_thread_scratch(void *data) {
	struct kern_thread_scratch *scratch = data;
	for (int i = 0; i < KERN_SCRATCH_USES; i++) {
		free(scratch->block[i].data);
		kern_scratch_total -= (int64_t)scratch->block[i].size;
	}
	free(scratch);
}

static void kern_make_scratch_key(void) { pthread_key_create(&kern_scratch_key, kern_free_thread_scratch); }

static struct kern_thread_scratch *kern_get_thread_scratch(void) {
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, kern_make_scratch_key);
	struct kern_thread_scratch *scratch = pthread_getspecific(kern_scratch_key);
	if (scratch == NULL) {
		scratch = calloc(1, sizeof *scratch);
		pthread_setspecific(kern_scratch_key, scratch);
	}
	return scratch;
}

// Requests huge pages, whose addresses are translated faster.
static void kern_use_huge_pages(void *memory, size_t size) {
#ifdef MADV_HUGEPAGE
	uintptr_t first = ((uintptr_t)memory + KERN_HUGE_PAGE - 1) / KERN_HUGE_PAGE * KERN_HUGE_PAGE;
	uintptr_t end = ((uintptr_t)memory + size) / KERN_HUGE_PAGE * KERN_HUGE_PAGE;
	if (first < end) {
		madvise((void *)first, end - first, MADV_HUGEPAGE);
	}
#else
	(void)memory, (void)size;
#endif
}

void *kern_scratch(enum kern_scratch_use use, size_t bytes) {
	struct kern_thread_scratch *scratch = kern_get_thread_scratch();
	if (scratch == NULL) {
		GGML_ABORT("out of memory for a thread's scratch");
	}
	if (scratch->block[use].size < bytes) {
		size_t size = (bytes + KERN_PAGE - 1) / KERN_PAGE * KERN_PAGE;
		free(scratch->block[use].data);
		kern_scratch_total -= (int64_t)scratch->block[use].size;
		scratch->block[use].data = aligned_alloc(KERN_PAGE, size);
		scratch->block[use].size = scratch->block[use].data == NULL ? 0 : size;
		kern_scratch_total += (int64_t)scratch->block[use].size;
		kern_use_huge_pages(scratch->block[use].data, scratch->block[use].size);
	}
	if (scratch->block[use].size < bytes) {
		GGML_ABORT("out of memory: %zu bytes of scratch", bytes);
	}
	return scratch->block[use].data;
}
