// Releases resources of a device, guarded: a device that is lost, or was stopped during a
// computation, asserts on release.
#ifndef GOGGML_RELEASE_H
#define GOGGML_RELEASE_H

#include "guard.h"

goggml_error goggml_backend_free(ggml_backend_t backend);
goggml_error goggml_buffer_free(ggml_backend_buffer_t buffer);
goggml_error goggml_gallocr_free(ggml_gallocr_t allocator);
goggml_error goggml_sched_free(ggml_backend_sched_t sched);
goggml_error goggml_event_free(ggml_backend_event_t event);
goggml_error goggml_plan_free(ggml_backend_t backend, ggml_backend_graph_plan_t plan);

// Returns free memory of the process to the system, if the C library supports it.
void goggml_trim(void);

#endif
