//go:build ignore

#include "repack.h"

ggml_backend_buffer_type_t *goggml_extra_bufts(ggml_backend_dev_t device) {
	ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
	ggml_backend_dev_get_extra_bufts_t get = NULL;
	if (reg != NULL) {
		get = (ggml_backend_dev_get_extra_bufts_t)ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
	}
	return get ? get(device) : NULL;
}

bool goggml_repacks(ggml_backend_buffer_type_t type) {
	ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
	return device != NULL && ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU && !ggml_backend_buft_is_host(type);
}

bool goggml_is_repacked(const struct ggml_tensor *tensor) {
	ggml_backend_buffer_t buffer = tensor->view_src != NULL ? tensor->view_src->buffer : tensor->buffer;
	return buffer != NULL && goggml_repacks(ggml_backend_buffer_get_type(buffer));
}

struct ggml_tensor *goggml_repacked_operand(const struct ggml_tensor *node) {
	for (int s = 0; s < GGML_MAX_SRC; s++) {
		struct ggml_tensor *source = node->src[s];
		if (source != NULL && goggml_is_repacked(source)) {
			return source;
		}
	}
	return NULL;
}

struct ggml_tensor *goggml_graph_next_repacked(struct ggml_cgraph *graph, int *i) {
	int n = ggml_graph_n_nodes(graph);
	while (*i < n) {
		struct ggml_tensor *node = ggml_graph_node(graph, (*i)++);
		if (goggml_repacked_operand(node) != NULL) {
			return node;
		}
	}
	return NULL;
}

bool goggml_supports_mul_mat(ggml_backend_buffer_type_t type, const struct ggml_tensor *tensor) {
	const int64_t columns = 512; // of the other operand: any number works
	_Alignas(16) char room[8 * 1024]; // alignment that ggml_init requires
	struct ggml_context *ctx = ggml_init((struct ggml_init_params){sizeof room, room, true});
	ggml_backend_buffer_t buffer = ggml_backend_buft_alloc_buffer(type, 0);
	bool yes = false;
	if (ctx != NULL && buffer != NULL) {
		struct ggml_tensor *w = ggml_new_tensor(ctx, tensor->type, GGML_MAX_DIMS, tensor->ne);
		w->buffer = buffer;
		struct ggml_tensor *x = ggml_new_tensor_4d(ctx, GGML_TYPE_F32, w->ne[0], columns, w->ne[2], w->ne[3]);
		ggml_backend_dev_t device = ggml_backend_buft_get_device(type);
		if (device == NULL) { // ordinary memory
			device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
		}
		yes = ggml_backend_dev_supports_op(device, ggml_mul_mat(ctx, w, x));
		if (!yes && w->ne[3] == 1) { // matrices of several experts
			struct ggml_tensor *rows = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, w->ne[0], 1, columns);
			struct ggml_tensor *ids = ggml_new_tensor_2d(ctx, GGML_TYPE_I32, 1, columns);
			yes = ggml_backend_dev_supports_op(device, ggml_mul_mat_id(ctx, w, rows, ids));
		}
	}
	ggml_backend_buffer_free(buffer);
	ggml_free(ctx);
	return yes;
}
