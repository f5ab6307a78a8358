//go:build ignore

#include "layout.h"

enum goggml_layout goggml_wanted_layout(const struct ggml_tensor *node, int source) {
	switch (node->op) {
	case GGML_OP_ADD:
	case GGML_OP_SUB:
	case GGML_OP_MUL:
	case GGML_OP_DIV:
	case GGML_OP_OUT_PROD:
		return source == 0 ? GOGGML_ROWS : GOGGML_ANY;
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
	case GGML_OP_SIN:
	case GGML_OP_SQR:
	case GGML_OP_SQRT:
	case GGML_OP_SUM:
	case GGML_OP_SUM_ROWS:
	case GGML_OP_UNARY:
		return GOGGML_ROWS;
	case GGML_OP_GLU:
		return GOGGML_EVEN;
	case GGML_OP_ACC:
	case GGML_OP_SET:
		return source == 0 ? GOGGML_DENSE : GOGGML_ROWS;
	case GGML_OP_OPT_STEP_ADAMW:
	case GGML_OP_OPT_STEP_SGD:
	case GGML_OP_SOFT_MAX:
		return GOGGML_DENSE;
	case GGML_OP_CROSS_ENTROPY_LOSS:
	case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
	case GGML_OP_DIAG_MASK_INF:
	case GGML_OP_DIAG_MASK_ZERO:
	case GGML_OP_SILU_BACK:
	case GGML_OP_SOFT_MAX_BACK:
		return GOGGML_FLAT;
	case GGML_OP_IM2COL:
	case GGML_OP_IM2COL_BACK:
	case GGML_OP_POOL_2D:
	case GGML_OP_POOL_2D_BACK:
	case GGML_OP_SCALE:
		return GOGGML_CANONICAL;
	default:
		return GOGGML_ANY;
	}
}

// Tells whether the dimensions from one on lie at multiples of its stride. The
// library's own tests let a dimension of size 1 have any.
static bool goggml_is_flat(const struct ggml_tensor *t, int dim) {
	size_t stride = t->nb[dim];
	for (int i = dim; i < GGML_MAX_DIMS; i++) {
		if (t->ne[i] != 1 && t->nb[i] != stride) {
			return false;
		}
		stride *= t->ne[i];
	}
	return true;
}

static bool goggml_is_canonical(const struct ggml_tensor *t) {
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
	// The library's test lets a row of one element have any stride, too.
	bool rows = t->nb[0] == ggml_type_size(t->type) && t->ne[0] % ggml_blck_size(t->type) == 0;
	switch (layout) {
	case GOGGML_ANY:
		return true;
	case GOGGML_ROWS:
		return rows;
	case GOGGML_EVEN:
		return rows && goggml_is_flat(t, 1);
	case GOGGML_DENSE:
		return rows && ggml_is_contiguous(t);
	case GOGGML_FLAT:
		return rows && ggml_is_contiguous(t) && goggml_is_flat(t, 1) && goggml_is_flat(t, 2);
	case GOGGML_CANONICAL:
		return rows && goggml_is_canonical(t);
	}
	return false;
}

bool goggml_fits(const struct ggml_tensor *node, int source) {
	const struct ggml_tensor *src = node->src[source];
	return src == NULL || goggml_has_layout(src, goggml_wanted_layout(node, source));
}

struct ggml_tensor *goggml_find_unfit(goggml_arena *arena) {
	int chunk;
	for (struct ggml_tensor *t = goggml_arena_first(arena, &chunk); t != NULL; t = goggml_arena_next(arena, &chunk, t)) {
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (!goggml_fits(t, s)) {
				return t;
			}
		}
	}
	return NULL;
}
