//go:build ignore

#include "tensor_data.h"

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

goggml_int goggml_tensor_set_piece(void *tensor, void *arg) {
	const goggml_piece *piece = arg;
	return (goggml_int){.error = goggml_tensor_set(tensor, piece->data, piece->offset, piece->size)};
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
