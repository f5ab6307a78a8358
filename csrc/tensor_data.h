// The data of tensors: writing, reading and copying, guarded.
#ifndef GOGGML_TENSOR_DATA_H
#define GOGGML_TENSOR_DATA_H

#include "arena.h"

goggml_error goggml_tensor_set(struct ggml_tensor *tensor, const void *data, size_t offset, size_t size);
// goggml_tensor_set for a compute thread; the argument is a goggml_chunk.
typedef struct {
	const void *data;
	size_t offset, size;
} goggml_chunk;
goggml_int goggml_tensor_set_chunk(void *tensor, void *chunk);
goggml_error goggml_tensor_get(const struct ggml_tensor *tensor, void *data, size_t offset, size_t size);
goggml_error goggml_tensor_memset(struct ggml_tensor *tensor, uint8_t value, size_t offset, size_t size);
goggml_error goggml_tensor_copy(struct ggml_tensor *src, struct ggml_tensor *dst);
// Copies between memory and n tensors. In the arrays, what goggml_with_buffer makes of the tensors takes their place.
goggml_error goggml_tensor_set_n(struct ggml_tensor **tensors, const void *data, const size_t *offsets, const size_t *sizes, const size_t *data_offsets, size_t n);
goggml_error goggml_tensor_get_n(struct ggml_tensor **tensors, void *data, const size_t *offsets, const size_t *sizes, const size_t *data_offsets, size_t n);
goggml_error goggml_tensor_copy_n(struct ggml_tensor **srcs, struct ggml_tensor **dsts, size_t n);
// Returns the tensor. For a view made before its origin was allocated, it returns a copy in room
// with the buffer set, by which some devices find the data.
struct ggml_tensor *goggml_with_buffer(const struct ggml_tensor *tensor, struct ggml_tensor *room);

#endif
