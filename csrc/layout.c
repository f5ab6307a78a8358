//go:build ignore

#include "layout.h"

static enum goggml_layout goggml_layout_of(const struct ggml_tensor *node, int source) {
	switch (node->op) {
	case GGML_OP_ADD:
	case GGML_OP_SUB:
	case GGML_OP_MUL:
	case GGML_OP_DIV:
	case GGML_OP_OUT_PROD:
		return source == 0 ? GOGGML_CONTIGUOUS_ROWS : GOGGML_ANY_LAYOUT;
	case GGML_OP_ARGMAX:
	case GGML_OP_CLAMP:
	case GGML_OP_COS:
	case GGML_OP_CUMSUM:
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_LOG:
	case GGML_OP_MEAN:
	case GGML_OP_MUL_MAT:
	case GGML_OP_NORM:
	case GGML_OP_REPEAT:
	case GGML_OP_REPEAT_BACK:
	case GGML_OP_RMS_NORM:
	case GGML_OP_RMS_NORM_BACK:
	case GGML_OP_ROPE:
	case GGML_OP_ROPE_BACK:
	case GGML_OP_SCALE:
	case GGML_OP_SIN:
	case GGML_OP_SQR:
	case GGML_OP_SQRT:
	case GGML_OP_SUM:
	case GGML_OP_SUM_ROWS:
	case GGML_OP_UNARY:
		return GOGGML_CONTIGUOUS_ROWS;
	case GGML_OP_GLU:
		return GOGGML_UNIFORM_ROW_STRIDE;
	case GGML_OP_ACC:
	case GGML_OP_SET:
		return source == 0 ? GOGGML_CONTIGUOUS : GOGGML_CONTIGUOUS_ROWS;
	case GGML_OP_OPT_STEP_ADAMW:
	case GGML_OP_OPT_STEP_SGD:
	case GGML_OP_SOFT_MAX:
		return GOGGML_CONTIGUOUS;
	case GGML_OP_CROSS_ENTROPY_LOSS:
	case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
	case GGML_OP_SILU_BACK:
	case GGML_OP_SOFT_MAX_BACK:
	case GGML_OP_IM2COL:
	case GGML_OP_IM2COL_BACK:
	case GGML_OP_POOL_2D:
	case GGML_OP_POOL_2D_BACK:
		return GOGGML_CANONICAL_STRIDES;
	default:
		return GOGGML_ANY_LAYOUT;
	}
}

static bool goggml_has_canonical_strides(const struct ggml_tensor *t) {
	size_t stride = ggml_row_size(t->type, t->ne[0]);
	for (int i = 1; i < GGML_MAX_DIMS; i++) {
		if (t->nb[i] != stride) {
			return false;
		}
		stride *= t->ne[i];
	}
	return true;
}

bool goggml_has_layout(const struct ggml_tensor *t, enum goggml_layout layout) {
	// ggml's test allows a row of one element to have any stride, but not all its kernels do.
	bool rows = t->nb[0] == ggml_type_size(t->type) && t->ne[0] % ggml_blck_size(t->type) == 0;
	switch (layout) {
	case GOGGML_ANY_LAYOUT:
		return true;
	case GOGGML_CONTIGUOUS_ROWS:
		return rows;
	case GOGGML_UNIFORM_ROW_STRIDE:
		return rows && ggml_is_contiguous_1(t);
	case GOGGML_CONTIGUOUS:
		return rows && ggml_is_contiguous(t);
	case GOGGML_CANONICAL_STRIDES:
		return rows && goggml_has_canonical_strides(t);
	}
	return false;
}

bool goggml_takes_layout(const struct ggml_tensor *node, int source) {
	const struct ggml_tensor *src = node->src[source];
	return src == NULL || goggml_has_layout(src, goggml_layout_of(node, source));
}
