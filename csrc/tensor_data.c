//go:build ignore

#include "tensor_data.h"

#include <stdlib.h>

struct ggml_tensor *goggml_with_buffer(const struct ggml_tensor *tensor, struct ggml_tensor *room) {
	ggml_backend_buffer_t buffer = tensor->view_src != NULL ? tensor->view_src->buffer : NULL;
	if (tensor->buffer != NULL || buffer == NULL) {
		return (struct ggml_tensor *)tensor;
	}
	ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(buffer));
	if (device != NULL && ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_META) {
		return (struct ggml_tensor *)tensor; // the device identifies the tensor by its address
	}
	*room = *tensor;
	room->buffer = buffer;
	return room;
}

goggml_error goggml_tensor_set(struct ggml_tensor *tensor, const void *data, size_t offset, size_t size) {
	struct ggml_tensor room;
	GUARDED_VOID(ggml_backend_tensor_set(goggml_with_buffer(tensor, &room), data, offset, size))
}

goggml_int goggml_tensor_set_chunk(void *tensor, void *arg) {
	const goggml_chunk *chunk = arg;
	return (goggml_int){.error = goggml_tensor_set(tensor, chunk->data, chunk->offset, chunk->size)};
}

goggml_error goggml_tensor_get(const struct ggml_tensor *tensor, void *data, size_t offset, size_t size) {
	struct ggml_tensor room;
	GUARDED_VOID(ggml_backend_tensor_get(goggml_with_buffer(tensor, &room), data, offset, size))
}

goggml_error goggml_tensor_memset(struct ggml_tensor *tensor, uint8_t value, size_t offset, size_t size) {
	struct ggml_tensor room;
	GUARDED_VOID(ggml_backend_tensor_memset(goggml_with_buffer(tensor, &room), value, offset, size))
}

goggml_error goggml_tensor_copy(struct ggml_tensor *src, struct ggml_tensor *dst) {
	struct ggml_tensor room[2];
	GUARDED_VOID(ggml_backend_tensor_copy(goggml_with_buffer(src, &room[0]), goggml_with_buffer(dst, &room[1])))
}

// Replaces n tensors by what goggml_with_buffer makes of them. Returns their room, which the caller frees.
static struct ggml_tensor *goggml_with_buffers(struct ggml_tensor **tensors, size_t n) {
	struct ggml_tensor *room = malloc(n * sizeof *room);
	for (size_t i = 0; i < n; i++) { tensors[i] = goggml_with_buffer(tensors[i], &room[i]); }
	return room;
}

static goggml_error goggml_set_n(struct ggml_tensor **tensors, const void *data, const size_t *offsets, const size_t *sizes, const size_t *data_offsets, size_t n) {
	GUARDED_VOID(ggml_backend_tensor_set_n(tensors, data, offsets, sizes, data_offsets, n))
}

goggml_error goggml_tensor_set_n(struct ggml_tensor **tensors, const void *data, const size_t *offsets, const size_t *sizes, const size_t *data_offsets, size_t n) {
	struct ggml_tensor *room = goggml_with_buffers(tensors, n);
	goggml_error error = goggml_set_n(tensors, data, offsets, sizes, data_offsets, n);
	free(room);
	return error;
}

static goggml_error goggml_get_n(struct ggml_tensor **tensors, void *data, const size_t *offsets, const size_t *sizes, const size_t *data_offsets, size_t n) {
	GUARDED_VOID(ggml_backend_tensor_get_n((const struct ggml_tensor *const *)tensors, data, offsets, sizes, data_offsets, n))
}

goggml_error goggml_tensor_get_n(struct ggml_tensor **tensors, void *data, const size_t *offsets, const size_t *sizes, const size_t *data_offsets, size_t n) {
	struct ggml_tensor *room = goggml_with_buffers(tensors, n);
	goggml_error error = goggml_get_n(tensors, data, offsets, sizes, data_offsets, n);
	free(room);
	return error;
}

static goggml_error goggml_copy_n(struct ggml_tensor **srcs, struct ggml_tensor **dsts, size_t n) {
	GUARDED_VOID(ggml_backend_tensor_copy_n((const struct ggml_tensor *const *)srcs, dsts, n))
}

goggml_error goggml_tensor_copy_n(struct ggml_tensor **srcs, struct ggml_tensor **dsts, size_t n) {
	struct ggml_tensor *room[] = {goggml_with_buffers(srcs, n), goggml_with_buffers(dsts, n)};
	goggml_error error = goggml_copy_n(srcs, dsts, n);
	free(room[0]);
	free(room[1]);
	return error;
}
