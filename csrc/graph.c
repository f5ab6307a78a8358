//go:build ignore

#include "graph.h"

#include <stdlib.h>

static struct ggml_cgraph *goggml_new_graph(goggml_arena *arena, size_t size, bool grads) {
	size_t room = ggml_graph_overhead_custom(size, grads) + ggml_tensor_overhead();
	return ggml_new_graph_custom(goggml_arena_room(arena, room), size, grads);
}

goggml_ptr goggml_graph_new(goggml_arena *arena, size_t size, bool grads) {
	GUARDED(goggml_ptr, goggml_new_graph(arena, size, grads))
}

static struct ggml_cgraph *goggml_copy_graph(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads) {
	struct ggml_cgraph *grown = goggml_new_graph(arena, size, grads);
	ggml_graph_cpy(graph, grown);
	return grown;
}

goggml_ptr goggml_graph_grow(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads) {
	GUARDED(goggml_ptr, goggml_copy_graph(arena, graph, size, grads))
}

goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor *tensor) {
	GUARDED_VOID(ggml_build_forward_expand(graph, tensor))
}

goggml_error goggml_graph_backward(goggml_arena *tensors_arena, struct ggml_cgraph *graph, struct ggml_tensor **grad_accs) {
	// A rule of the backward pass makes fewer than 16 tensors.
	size_t room = (size_t)(ggml_graph_n_nodes(graph) + 1) * GOGGML_OP_ROOM;
	GUARDED_VOID(ggml_build_backward_expand(goggml_arena_room(tensors_arena, room), graph, grad_accs))
}

goggml_error goggml_graph_reset(struct ggml_cgraph *graph) {
	GUARDED_VOID(ggml_graph_reset(graph))
}

static bool goggml_has_memory(const struct ggml_tensor *t) {
	return t->data != NULL || ggml_is_empty(t);
}

static bool goggml_host_readable(const struct ggml_tensor *t) {
	ggml_backend_buffer_t buffer = t->view_src ? t->view_src->buffer : t->buffer;
	return t->data != NULL && buffer != NULL && ggml_backend_buffer_is_host(buffer);
}

// Row indices that the graph computes cannot be known before it runs; those
// that the caller wrote can.
static bool goggml_bad_index(const struct ggml_tensor *ids, int64_t rows, goggml_check *check) {
	if (ids->op != GGML_OP_NONE || !ggml_is_contiguous(ids) || !goggml_host_readable(ids)) {
		return false;
	}
	int64_t n = ggml_nelements(ids);
	for (int64_t i = 0; i < n; i++) {
		int64_t id = ids->type == GGML_TYPE_I64 ? ((const int64_t *)ids->data)[i] : ((const int32_t *)ids->data)[i];
		if (id < 0 || id >= rows) {
			check->value = id;
			check->limit = rows;
			return true;
		}
	}
	return false;
}

static struct ggml_tensor *goggml_bad_index_operand(struct ggml_tensor *node, goggml_check *check) {
	switch (node->op) {
	case GGML_OP_GET_ROWS:
		return goggml_bad_index(node->src[1], node->src[0]->ne[1], check) ? node->src[1] : NULL;
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_SET_ROWS:
		return goggml_bad_index(node->src[1], node->ne[1], check) ? node->src[1] : NULL;
	case GGML_OP_MUL_MAT_ID:
		return goggml_bad_index(node->src[2], node->src[0]->ne[2], check) ? node->src[2] : NULL;
	default:
		return NULL;
	}
}

static bool goggml_is_layout_op(const struct ggml_tensor *t) {
	return t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE ||
		t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t device, bool allocated) {
	goggml_check check = {0};
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		check.node = node;
		if (allocated && !goggml_has_memory(node)) {
			check.fault = GOGGML_FAULT_UNALLOCATED;
			return check;
		}
		for (int s = 0; allocated && s < GGML_MAX_SRC; s++) {
			if (node->src[s] != NULL && !goggml_has_memory(node->src[s])) {
				check.fault = GOGGML_FAULT_UNALLOCATED;
				check.operand = node->src[s];
				return check;
			}
		}
		check.operand = goggml_bad_index_operand(node, &check);
		if (check.operand != NULL) {
			check.fault = GOGGML_FAULT_INDEX;
			return check;
		}
		if (device != NULL && !goggml_is_layout_op(node) && !ggml_backend_dev_supports_op(device, node)) {
			check.fault = GOGGML_FAULT_UNSUPPORTED;
			return check;
		}
	}
	check.node = NULL;
	return check;
}

static void goggml_lease_add(goggml_lease *lease, struct ggml_tensor *t) {
	if (t != NULL && t->data == NULL) {
		lease->tensors[lease->n++] = t;
	}
}

goggml_lease goggml_lease_open(struct ggml_cgraph *graph) {
	goggml_lease lease = {0};
	int n = ggml_graph_n_nodes(graph);
	lease.tensors = malloc(sizeof *lease.tensors * ((size_t)n * (1 + GGML_MAX_SRC) + 1));
	for (int i = 0; lease.tensors != NULL && i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		goggml_lease_add(&lease, node);
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			// A source that is a node itself has been added already.
			struct ggml_tensor *src = node->src[s];
			if (src != NULL && src->op == GGML_OP_NONE) {
				goggml_lease_add(&lease, src);
			}
		}
	}
	return lease;
}

void goggml_lease_end(goggml_lease *lease) {
	for (int64_t i = 0; i < lease->n; i++) {
		lease->tensors[i]->data = NULL;
		lease->tensors[i]->buffer = NULL;
	}
	free(lease->tensors);
	*lease = (goggml_lease){0};
}
