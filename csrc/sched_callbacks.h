// Callbacks of the scheduler into Go. An id is the number of the Go function.
#ifndef GOGGML_SCHED_CALLBACKS_H
#define GOGGML_SCHED_CALLBACKS_H

#include "guard.h"

// An id of 0 removes the callback.
void goggml_sched_set_eval(ggml_backend_sched_t sched, uintptr_t id);
void goggml_sched_set_copy(ggml_backend_sched_t sched, uintptr_t id);
// Copies a part of a weight in system memory to its copy on the backend.
goggml_error goggml_copy_part(ggml_backend_t backend, const struct ggml_tensor *src, struct ggml_tensor *dst, size_t offset, size_t size);

#endif
