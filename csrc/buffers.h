// Buffer types and buffers: sizes of tensors in them, and copies in pieces, guarded.
#ifndef GOGGML_BUFFERS_H
#define GOGGML_BUFFERS_H

#include "guard.h"

// The room for n tensors.
goggml_int goggml_buft_alloc_size(ggml_backend_buffer_type_t type, struct ggml_tensor **tensors, int n);
// Allocates the tensors in a buffer of their own. The value is NULL when there is no memory.
goggml_ptr goggml_buft_alloc_tensors(ggml_backend_buffer_type_t type, struct ggml_tensor **tensors, int n);
goggml_error goggml_buffer_reset(ggml_backend_buffer_t buffer);
goggml_ptr goggml_cpu_buffer_from_ptr(void *memory, size_t size);
// Tells whether the tensor lies in the buffer.
bool goggml_lies_in(const struct ggml_tensor *tensor, ggml_backend_buffer_t buffer);

// Pieces of a tensor: count times size bytes, at distances in the tensor and in the memory of the program.
typedef struct {
	size_t offset, size, count, stride, memory_stride;
} goggml_pieces;

// backend is NULL for a copy that waits.
goggml_error goggml_tensor_set_pieces(ggml_backend_t backend, struct ggml_tensor *tensor, const void *data, goggml_pieces p);
goggml_error goggml_tensor_get_pieces(ggml_backend_t backend, const struct ggml_tensor *tensor, void *data, goggml_pieces p);

#endif
