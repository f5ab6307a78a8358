// Asynchronous copies and events, guarded.
#ifndef GOGGML_ASYNC_H
#define GOGGML_ASYNC_H

#include "guard.h"

goggml_error goggml_tensor_set_async(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data, size_t offset, size_t size);
goggml_error goggml_tensor_get_async(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data, size_t offset, size_t size);
goggml_error goggml_tensor_copy_async(ggml_backend_t from, ggml_backend_t to, struct ggml_tensor *src, struct ggml_tensor *dst);

// The value is NULL if the device has no events.
goggml_ptr goggml_event_new(ggml_backend_dev_t device);
goggml_error goggml_event_record(ggml_backend_event_t event, ggml_backend_t backend);
goggml_error goggml_event_synchronize(ggml_backend_event_t event);
goggml_error goggml_event_wait(ggml_backend_t backend, ggml_backend_event_t event);

#endif
