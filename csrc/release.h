// Gives back what is a device's, guarded: one that is lost, or was left in the middle of a computation, asserts then.
#ifndef GOGGML_RELEASE_H
#define GOGGML_RELEASE_H

#include "guard.h"

goggml_error goggml_backend_free(ggml_backend_t backend);
goggml_error goggml_buffer_free(ggml_backend_buffer_t buffer);
goggml_error goggml_gallocr_free(ggml_gallocr_t allocator);
goggml_error goggml_sched_free(ggml_backend_sched_t sched);
goggml_error goggml_event_free(ggml_backend_event_t event);
goggml_error goggml_plan_free(ggml_backend_t backend, ggml_backend_graph_plan_t plan);

// Gives memory that is free, but still the process's, back to the system, where the C library can.
void goggml_trim(void);

#endif
