//go:build ignore

#include "release.h"

goggml_error goggml_backend_free(ggml_backend_t backend) {
	GUARDED_VOID(ggml_backend_free(backend))
}

goggml_error goggml_buffer_free(ggml_backend_buffer_t buffer) {
	GUARDED_VOID(ggml_backend_buffer_free(buffer))
}

goggml_error goggml_gallocr_free(ggml_gallocr_t allocator) {
	GUARDED_VOID(ggml_gallocr_free(allocator))
}

goggml_error goggml_sched_free(ggml_backend_sched_t sched) {
	GUARDED_VOID(ggml_backend_sched_free(sched))
}

goggml_error goggml_event_free(ggml_backend_event_t event) {
	GUARDED_VOID(ggml_backend_event_free(event))
}

goggml_error goggml_plan_free(ggml_backend_t backend, ggml_backend_graph_plan_t plan) {
	GUARDED_VOID(ggml_backend_graph_plan_free(backend, plan))
}

extern int malloc_trim(size_t pad) __attribute__((weak));

void goggml_trim(void) {
	if (malloc_trim != NULL) {
		malloc_trim(0);
	}
}
