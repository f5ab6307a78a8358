//go:build ignore

#include "buffers.h"

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

goggml_error goggml_tensor_set_pieces(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data, goggml_pieces p) {
	if (backend == NULL) {
		GUARDED_VOID(ggml_backend_tensor_set_2d(tensor, data, p.offset, p.size, p.count, p.stride, p.memory_stride))
	}
	GUARDED_VOID(ggml_backend_tensor_set_2d_async(backend, tensor, data, p.offset, p.size, p.count, p.stride, p.memory_stride))
}

goggml_error goggml_tensor_get_pieces(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data, goggml_pieces p) {
	if (backend == NULL) {
		GUARDED_VOID(ggml_backend_tensor_get_2d(tensor, data, p.offset, p.size, p.count, p.stride, p.memory_stride))
	}
	GUARDED_VOID(ggml_backend_tensor_get_2d_async(backend, tensor, data, p.offset, p.size, p.count, p.stride, p.memory_stride))
}
