//go:build ignore

#include "pages.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

enum { GOGGML_HUGE = 2 << 20 }; // the size of a huge page on most processors

enum goggml_pages { GOGGML_LARGE, GOGGML_SMALL };

static void goggml_advise_pages(void *memory, size_t size, enum goggml_pages pages) {
#ifdef MADV_HUGEPAGE
	uintptr_t first = ((uintptr_t)memory + GOGGML_HUGE - 1) / GOGGML_HUGE * GOGGML_HUGE;
	uintptr_t end = ((uintptr_t)memory + size) / GOGGML_HUGE * GOGGML_HUGE;
	if (first < end) {
		madvise((void *)first, end - first, pages == GOGGML_LARGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	}
#else
	(void)memory, (void)size, (void)pages;
#endif
}

static void goggml_advise_buffer(ggml_backend_buffer_t buffer, enum goggml_pages pages) {
	ggml_backend_buffer_type_t type = ggml_backend_buffer_get_type(buffer);
	ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
	if (device == NULL ? ggml_backend_buft_is_host(type) : ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU) {
		goggml_advise_pages(ggml_backend_buffer_get_base(buffer), ggml_backend_buffer_get_size(buffer), pages);
	}
}

void goggml_huge_buffer(ggml_backend_buffer_t buffer) { goggml_advise_buffer(buffer, GOGGML_LARGE); }
void goggml_sparse_buffer(ggml_backend_buffer_t buffer) { goggml_advise_buffer(buffer, GOGGML_SMALL); }

void goggml_huge_graph(struct ggml_cgraph *graph) {
	ggml_backend_buffer_t last = NULL;
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		ggml_backend_buffer_t buffer = ggml_graph_node(graph, i)->buffer;
		if (buffer != NULL && buffer != last && ggml_backend_buffer_get_usage(buffer) == GGML_BACKEND_BUFFER_USAGE_COMPUTE) {
			goggml_huge_buffer(last = buffer);
		}
	}
}
