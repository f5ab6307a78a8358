// Callbacks of the scheduler and others, into Go. An id names the Go function.
#ifndef GOGGML_CALLBACKS_H
#define GOGGML_CALLBACKS_H

#include "guard.h"

// An id of 0 ends the callback.
void goggml_sched_set_eval(ggml_backend_sched_t sched, uintptr_t id);
void goggml_sched_set_realloc(ggml_backend_sched_t sched, uintptr_t id);

#endif
