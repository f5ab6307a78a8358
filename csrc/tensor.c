//go:build ignore

#include "tensor.h"

bool goggml_is_layout_op(const struct ggml_tensor *t) {
	return t->op == GGML_OP_NONE || t->op == GGML_OP_VIEW || t->op == GGML_OP_RESHAPE ||
		t->op == GGML_OP_PERMUTE || t->op == GGML_OP_TRANSPOSE;
}

const struct ggml_tensor *goggml_origin(const struct ggml_tensor *t) {
	while (goggml_is_layout_op(t) && t->src[0] != NULL) {
		t = t->src[0];
	}
	return t;
}

bool goggml_is_inplace(const struct ggml_tensor *node) {
	return node->view_src != NULL && !goggml_is_layout_op(node) && node->op != GGML_OP_CPY;
}

void goggml_set_flag(struct ggml_tensor *t, int32_t flag) {
	t->flags |= flag;
	struct ggml_tensor *root = t->view_src;
	if (root != NULL && (flag == GGML_TENSOR_FLAG_OUTPUT || (flag == GGML_TENSOR_FLAG_INPUT && root->op == GGML_OP_NONE))) {
		root->flags |= flag;
	}
}

// A stale view copied the address of its origin when it was made, and the origin has other memory
// now.
static bool goggml_stale(const struct ggml_tensor *t) {
	return t->view_src != NULL && t->data != NULL &&
		(t->view_src->data == NULL || t->data != (char *)t->view_src->data + t->view_offs);
}

bool goggml_has_memory(const struct ggml_tensor *t) {
	return (t->data != NULL && !goggml_stale(t)) || ggml_is_empty(t);
}

void goggml_drop_stale(struct ggml_tensor *t) {
	if (goggml_stale(t)) {
		goggml_memory_changed();
		t->data = NULL;
		t->buffer = NULL;
	}
}
