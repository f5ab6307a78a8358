// Buffer types and buffers: allocation, sizes of tensors in them, and copies of regions, guarded.
#ifndef GOGGML_BUFFERS_H
#define GOGGML_BUFFERS_H

#include "arena.h"

goggml_ptr goggml_buft_alloc(ggml_backend_buffer_type_t type, size_t size);
goggml_ptr goggml_buffer_from_host_ptr(ggml_backend_dev_t device, void *ptr, size_t size, size_t max_tensor_size);
goggml_int goggml_tallocr_alloc(struct ggml_tallocr *allocator, struct ggml_tensor *tensor);
goggml_int goggml_tensor_alloc(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, void *address);
goggml_int goggml_view_init(struct ggml_tensor *tensor);
goggml_error goggml_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value);

// Returns the bytes of n tensors.
goggml_int goggml_buft_alloc_size(ggml_backend_buffer_type_t type, struct ggml_tensor **tensors, int n);
// Allocates the tensors in a buffer of their own. The value is NULL if memory is short.
goggml_ptr goggml_buft_alloc_tensors(ggml_backend_buffer_type_t type, struct ggml_tensor **tensors, int n);
goggml_error goggml_buffer_reset(ggml_backend_buffer_t buffer);
goggml_ptr goggml_cpu_buffer_from_ptr(void *memory, size_t size);
// Reports whether the tensor, or its view source, lies in the buffer.
bool goggml_lies_in(const struct ggml_tensor *tensor, ggml_backend_buffer_t buffer);

// A rectangle of bytes: rows with a stride in the tensor and one in the memory of the program.
typedef struct {
	size_t offset, width, rows, stride, memory_stride;
} goggml_region;

// backend is NULL for a synchronous copy.
goggml_error goggml_tensor_set_2d(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data, goggml_region r);
goggml_error goggml_tensor_get_2d(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data, goggml_region r);

#endif
