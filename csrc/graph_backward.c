//go:build ignore

#include "graph_backward.h"
#include "graph_build.h"
#include "layout.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

goggml_graph_flags goggml_graph_find_flags(struct ggml_cgraph *graph) {
	goggml_graph_flags flags = {0};
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		if (node->flags & GGML_TENSOR_FLAG_LOSS) {
			flags.loss = node;
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			flags.params = flags.params || (node->src[s] != NULL && (node->src[s]->flags & GGML_TENSOR_FLAG_PARAM));
		}
	}
	return flags;
}

static bool goggml_unary_lacks_backward(enum ggml_unary_op op) {
	switch (op) {
	case GGML_UNARY_OP_TANH:
	case GGML_UNARY_OP_ELU:
	case GGML_UNARY_OP_SIGMOID:
	case GGML_UNARY_OP_GELU:
	case GGML_UNARY_OP_GELU_QUICK:
	case GGML_UNARY_OP_GELU_ERF:
	case GGML_UNARY_OP_HARDSWISH:
	case GGML_UNARY_OP_HARDSIGMOID:
	case GGML_UNARY_OP_FLOOR:
	case GGML_UNARY_OP_CEIL:
	case GGML_UNARY_OP_ROUND:
	case GGML_UNARY_OP_TRUNC:
	case GGML_UNARY_OP_XIELU:
		return true;
	default:
		return false;
	}
}

static float goggml_param_f32(const struct ggml_tensor *node, int i) {
	float value;
	memcpy(&value, &node->op_params[i], sizeof value);
	return value;
}

bool goggml_lacks_backward(const struct ggml_tensor *node) {
	switch (node->op) {
	case GGML_OP_UNARY:
		return goggml_unary_lacks_backward(ggml_get_unary_op(node));
	case GGML_OP_GLU:
		return ggml_get_glu_op(node) != GGML_GLU_OP_SWIGLU || node->src[1] == NULL;
	case GGML_OP_SOFT_MAX:
		return goggml_param_f32(node, 1) != 0.0f || node->src[2] != NULL; // ALiBi's bias, or sinks
	case GGML_OP_ROPE:
		return node->op_params[15] != 0; // the offset, which ggml's rule ignores
	case GGML_OP_POOL_2D:
		return node->src[0]->type != GGML_TYPE_F32;
	case GGML_OP_ADD_ID:
	case GGML_OP_ADD_REL_POS:
	case GGML_OP_CLAMP:
	case GGML_OP_COL2IM_1D:
	case GGML_OP_CONCAT:
	case GGML_OP_CONV_2D:
	case GGML_OP_CONV_2D_DW:
	case GGML_OP_CONV_3D:
	case GGML_OP_CONV_TRANSPOSE_1D:
	case GGML_OP_CONV_TRANSPOSE_2D:
	case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
	case GGML_OP_CUMSUM:
	case GGML_OP_CUSTOM:
	case GGML_OP_DIAG:
	case GGML_OP_DSV4_HC_COMB:
	case GGML_OP_DSV4_HC_POST:
	case GGML_OP_DSV4_HC_PRE:
	case GGML_OP_FLASH_ATTN_EXT:
	case GGML_OP_GATED_DELTA_NET:
	case GGML_OP_GATED_LINEAR_ATTN:
	case GGML_OP_GET_REL_POS:
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_GROUP_NORM:
	case GGML_OP_IM2COL_3D:
	case GGML_OP_IM2COL_BACK:
	case GGML_OP_L2_NORM:
	case GGML_OP_LEAKY_RELU:
	case GGML_OP_LIGHTNING_INDEXER:
	case GGML_OP_MAP_CUSTOM1:
	case GGML_OP_MAP_CUSTOM2:
	case GGML_OP_MAP_CUSTOM3:
	case GGML_OP_MUL_MAT_ID:
	case GGML_OP_NORM:
	case GGML_OP_OUT_PROD:
	case GGML_OP_PAD:
	case GGML_OP_PAD_REFLECT_1D:
	case GGML_OP_POOL_1D:
	case GGML_OP_POOL_2D_BACK:
	case GGML_OP_RMS_NORM_BACK:
	case GGML_OP_ROLL:
	case GGML_OP_ROPE_BACK:
	case GGML_OP_RWKV_WKV6:
	case GGML_OP_RWKV_WKV7:
	case GGML_OP_SET_ROWS:
	case GGML_OP_SILU_BACK:
	case GGML_OP_SOFT_MAX_BACK:
	case GGML_OP_SOLVE_TRI:
	case GGML_OP_SSM_CONV:
	case GGML_OP_SSM_SCAN:
	case GGML_OP_TIMESTEP_EMBEDDING:
	case GGML_OP_TRI:
	case GGML_OP_UPSCALE:
	case GGML_OP_WIN_PART:
	case GGML_OP_WIN_UNPART:
		return true;
	default:
		return false;
	}
}

bool goggml_propagates_requires_grad(const struct ggml_tensor *node, int source) {
	switch (node->op) {
	case GGML_OP_UNARY:
		return ggml_get_unary_op(node) != GGML_UNARY_OP_SGN && ggml_get_unary_op(node) != GGML_UNARY_OP_STEP;
	case GGML_OP_IM2COL: // only the kernel's shape is used
	case GGML_OP_IM2COL_BACK:
		return source != 0;
	case GGML_OP_CPY: // the operand that is overwritten
	case GGML_OP_GET_ROWS:
	case GGML_OP_GET_ROWS_BACK:
	case GGML_OP_ROPE:
		return source != 1;
	default:
		return true;
	}
}

bool goggml_has_grad_for(const struct ggml_tensor *node, int source) {
	switch (node->op) {
	case GGML_OP_CROSS_ENTROPY_LOSS:
	case GGML_OP_ROPE:
	case GGML_OP_SOFT_MAX:
		return source == 0;
	default:
		return goggml_propagates_requires_grad(node, source);
	}
}

// Reports whether the CPU computes a node of a backward rule for its types.
static bool goggml_has_types(const struct ggml_tensor *node) {
	const struct ggml_tensor *a = node->src[0], *b = node->src[1];
	switch (node->op) {
	case GGML_OP_ADD:
	case GGML_OP_SUB:
	case GGML_OP_MUL:
	case GGML_OP_DIV:
		return a->type == b->type ? node->type == a->type : b->type == GGML_TYPE_F32 && (node->type == a->type || node->type == GGML_TYPE_F32);
	case GGML_OP_MUL_MAT:
		return b->type == GGML_TYPE_F32 || (b->type == a->type && !ggml_is_quantized(b->type));
	case GGML_OP_OUT_PROD:
		return b->type == GGML_TYPE_F32 && (a->type == GGML_TYPE_F32 || a->type == GGML_TYPE_F16 || ggml_is_quantized(a->type));
	case GGML_OP_SILU_BACK:
		return a->type == b->type;
	case GGML_OP_RMS_NORM_BACK:
	case GGML_OP_SOFT_MAX_BACK:
	case GGML_OP_IM2COL_BACK:
	case GGML_OP_ACC:
		return a->type == GGML_TYPE_F32 && b->type == GGML_TYPE_F32;
	case GGML_OP_SCALE:
	case GGML_OP_REPEAT_BACK:
	case GGML_OP_SUM_ROWS:
	case GGML_OP_POOL_2D_BACK:
	case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
		return a->type == GGML_TYPE_F32;
	default:
		return true;
	}
}

// Inserts a node before another.
static void goggml_insert_node(struct ggml_cgraph *graph, struct ggml_tensor *node, int at) {
	node->flags |= GGML_TENSOR_FLAG_COMPUTE;
	ggml_graph_add_node(graph, node);
	struct ggml_tensor **nodes = ggml_graph_nodes(graph);
	int n = ggml_graph_n_nodes(graph) - 1;
	memmove(&nodes[at + 1], &nodes[at], sizeof *nodes * (size_t)(n - at));
	nodes[at] = node;
}

static void goggml_fix_layouts(goggml_arena *arena, struct ggml_cgraph *graph, int first) {
	for (int i = first; i < ggml_graph_n_nodes(graph); i++) {
		struct ggml_tensor *added = ggml_graph_node(graph, i);
		if (!goggml_has_types(added)) {
			GGML_ABORT("the gradient needs %s of types that it does not take; train in f32", ggml_op_desc(added));
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			struct ggml_tensor *node = ggml_graph_node(graph, i);
			if (goggml_takes_layout(node, s)) {
				continue;
			}
			if (s == 0 && node->view_src != NULL) {
				GGML_ABORT("%s works in place on an operand that must be contiguous", ggml_op_desc(node));
			}
			node->src[s] = ggml_cont(goggml_arena_room(arena, GOGGML_OP_ROOM), node->src[s]);
			goggml_insert_node(graph, node->src[s], i++);
		}
	}
}

// The backward rule of a permutation makes a permuted view as the gradient, which most other rules
// do not support; the rule of a reshape makes a contiguous copy of it. So a reshape to the same
// shape precedes each permutation while the gradients are built.
static bool goggml_permutes(const struct ggml_tensor *node) {
	return (node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE) &&
		node->src[0]->type == GGML_TYPE_F32 && goggml_has_layout(node->src[0], GOGGML_CANONICAL_STRIDES);
}

static struct ggml_cgraph *goggml_differentiate(goggml_arena *tensors, goggml_arena *graphs, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	int n = ggml_graph_n_nodes(graph);
	// A rule makes fewer than 16 tensors, and a few copies of them.
	struct ggml_cgraph *extended = goggml_new_graph(graphs, 25 * ((size_t)n + 1) + (size_t)n_leaves, true);
	struct ggml_context *ctx = goggml_arena_room(tensors, ((size_t)n + 1) * 2 * GOGGML_OP_ROOM);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		if (goggml_permutes(node)) {
			node->src[0] = ggml_reshape(ctx, node->src[0], node->src[0]);
		}
		ggml_build_forward_expand(extended, node);
	}
	for (int i = 0; i < n_leaves; i++) {
		ggml_build_forward_expand(extended, leaves[i]);
	}
	int first = ggml_graph_n_nodes(extended);
	ggml_build_backward_expand(ctx, extended, NULL);
	goggml_fix_layouts(tensors, extended, first);
	return extended;
}

static goggml_ptr goggml_try_backward(goggml_arena *tensors, goggml_arena *graphs, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	GUARDED(goggml_ptr, goggml_differentiate(tensors, graphs, graph, leaves, n_leaves))
}

goggml_ptr goggml_graph_backward(goggml_arena *tensors, goggml_arena *graphs, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	int n = ggml_graph_n_nodes(graph);
	struct ggml_tensor **sources = malloc((size_t)n * sizeof *sources);
	if (sources == NULL) {
		return (goggml_ptr){.error = strdup("out of memory")};
	}
	for (int i = 0; i < n; i++) {
		sources[i] = ggml_graph_node(graph, i)->src[0];
	}
	goggml_ptr result = goggml_try_backward(tensors, graphs, graph, leaves, n_leaves);
	// Other graphs with these nodes must not contain the reshapes.
	for (int i = 0; i < n; i++) {
		ggml_graph_node(graph, i)->src[0] = sources[i];
	}
	free(sources);
	return result;
}

// ggml_graph_reset would also clear the moments of an optimizer, and so undo its steps if it runs
// before each of them.
static void goggml_reset(struct ggml_cgraph *graph) {
	const float one = 1.0f;
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		struct ggml_tensor *grad = ggml_graph_get_grad_acc(graph, node);
		if (grad == NULL) {
			continue;
		}
		if (node->flags & GGML_TENSOR_FLAG_LOSS) {
			ggml_backend_tensor_set(grad, &one, 0, sizeof one);
		} else {
			ggml_backend_tensor_memset(grad, 0, 0, ggml_nbytes(grad));
		}
	}
}

goggml_error goggml_graph_reset(struct ggml_cgraph *graph) {
	GUARDED_VOID(goggml_reset(graph))
}

goggml_error goggml_graph_reset_all(struct ggml_cgraph *graph) {
	GUARDED_VOID(ggml_graph_reset(graph))
}
