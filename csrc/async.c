//go:build ignore

#include "async.h"
#include "tensor_data.h"

goggml_error goggml_tensor_set_async(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data, size_t offset, size_t size) {
	struct ggml_tensor room;
	GUARDED_VOID(ggml_backend_tensor_set_async(backend, goggml_with_buffer(tensor, &room), data, offset, size))
}

goggml_error goggml_tensor_get_async(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data, size_t offset, size_t size) {
	struct ggml_tensor room;
	GUARDED_VOID(ggml_backend_tensor_get_async(backend, goggml_with_buffer(tensor, &room), data, offset, size))
}

goggml_error goggml_tensor_copy_async(ggml_backend_t from, ggml_backend_t to, struct ggml_tensor *src, struct ggml_tensor *dst) {
	struct ggml_tensor room[2];
	GUARDED_VOID(ggml_backend_tensor_copy_async(from, to, goggml_with_buffer(src, &room[0]), goggml_with_buffer(dst, &room[1])))
}

goggml_ptr goggml_event_new(ggml_backend_dev_t device) {
	GUARDED(goggml_ptr, ggml_backend_event_new(device))
}

goggml_error goggml_event_record(ggml_backend_event_t event, ggml_backend_t backend) {
	GUARDED_VOID(ggml_backend_event_record(event, backend))
}

goggml_error goggml_event_synchronize(ggml_backend_event_t event) {
	GUARDED_VOID(ggml_backend_event_synchronize(event))
}

goggml_error goggml_event_wait(ggml_backend_t backend, ggml_backend_event_t event) {
	GUARDED_VOID(ggml_backend_event_wait(backend, event))
}
