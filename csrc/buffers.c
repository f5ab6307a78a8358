//go:build ignore

#include "buffers.h"
#include "pages.h"
#include "tensor_data.h"

static ggml_backend_buffer_t goggml_new_buffer(ggml_backend_buffer_type_t type, size_t size) {
	ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, size);
	if (buffer != NULL) {
		goggml_huge_buffer(buffer);
	}
	return buffer;
}

goggml_ptr goggml_buft_alloc(ggml_backend_buffer_type_t type, size_t size) {
	GUARDED(goggml_ptr, goggml_new_buffer(type, size))
}

goggml_ptr goggml_buffer_from_host_ptr(ggml_backend_dev_t device, void *ptr, size_t size, size_t max_tensor_size) {
	GUARDED(goggml_ptr, ggml_backend_dev_buffer_from_host_ptr(device, ptr, size, max_tensor_size))
}

goggml_int goggml_tallocr_alloc(struct ggml_tallocr *allocator, struct ggml_tensor *tensor) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_tallocr_alloc(allocator, tensor))
}

goggml_int goggml_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, void *address) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_backend_tensor_alloc(buffer, tensor, address))
}

goggml_int goggml_view_init(struct ggml_tensor *tensor) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_backend_view_init(tensor))
}

goggml_error goggml_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
	GUARDED_VOID(ggml_backend_buffer_clear(buffer, value))
}

goggml_int goggml_buft_alloc_size(ggml_backend_buffer_type_t type, struct ggml_tensor **tensors, int n) {
	if (n == 1) {
		GUARDED(goggml_int, ggml_backend_buft_get_alloc_size(type, tensors[0]))
	}
	GUARDED(goggml_int, ggml_backend_buft_get_alloc_size_n(type, tensors, n))
}

goggml_ptr goggml_buft_alloc_tensors(ggml_backend_buffer_type_t type, struct ggml_tensor **tensors, int n) {
	GUARDED(goggml_ptr, ggml_backend_buft_alloc_buffer_n(type, tensors, n))
}

goggml_error goggml_buffer_reset(ggml_backend_buffer_t buffer) {
	GUARDED_VOID(ggml_backend_buffer_reset(buffer))
}

goggml_ptr goggml_cpu_buffer_from_ptr(void *memory, size_t size) {
	GUARDED(goggml_ptr, ggml_backend_cpu_buffer_from_ptr(memory, size))
}

bool goggml_lies_in(const struct ggml_tensor *tensor, ggml_backend_buffer_t buffer) {
	return tensor->buffer == buffer || (tensor->view_src != NULL && tensor->view_src->buffer == buffer);
}

goggml_error goggml_tensor_set_2d(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data, goggml_region r) {
	struct ggml_tensor room;
	tensor = goggml_with_buffer(tensor, &room);
	if (backend == NULL) {
		GUARDED_VOID(ggml_backend_tensor_set_2d(tensor, data, r.offset, r.width, r.rows, r.stride, r.memory_stride))
	}
	GUARDED_VOID(ggml_backend_tensor_set_2d_async(backend, tensor, data, r.offset, r.width, r.rows, r.stride, r.memory_stride))
}

goggml_error goggml_tensor_get_2d(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data, goggml_region r) {
	struct ggml_tensor room;
	tensor = goggml_with_buffer(tensor, &room);
	if (backend == NULL) {
		GUARDED_VOID(ggml_backend_tensor_get_2d(tensor, data, r.offset, r.width, r.rows, r.stride, r.memory_stride))
	}
	GUARDED_VOID(ggml_backend_tensor_get_2d_async(backend, tensor, data, r.offset, r.width, r.rows, r.stride, r.memory_stride))
}
