//go:build ignore

#include "backward.h"
#include "graph.h"
#include "layout.h"

#include <stdlib.h>
#include <string.h>

// Tells whether the CPU has the types of what backward rules make.
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
	case GGML_OP_DIAG_MASK_ZERO:
	case GGML_OP_POOL_2D_BACK:
	case GGML_OP_CROSS_ENTROPY_LOSS_BACK:
		return a->type == GGML_TYPE_F32;
	default:
		return true;
	}
}

// Adds a node before another one.
static void goggml_insert_node(struct ggml_cgraph *graph, struct ggml_tensor *node, int at) {
	node->flags |= GGML_TENSOR_FLAG_COMPUTE;
	ggml_graph_add_node(graph, node);
	struct ggml_tensor **nodes = ggml_graph_nodes(graph);
	int n = ggml_graph_n_nodes(graph) - 1;
	memmove(&nodes[at + 1], &nodes[at], sizeof *nodes * (size_t)(n - at));
	nodes[at] = node;
}

static void goggml_fit_nodes(goggml_arena *arena, struct ggml_cgraph *graph, int first) {
	for (int i = first; i < ggml_graph_n_nodes(graph); i++) {
		struct ggml_tensor *added = ggml_graph_node(graph, i);
		if (!goggml_has_types(added)) {
			GGML_ABORT("the gradient needs %s of types that it does not take; train in f32", ggml_op_desc(added));
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			struct ggml_tensor *node = ggml_graph_node(graph, i);
			if (goggml_fits(node, s)) {
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

// The rule of a permutation gives a permuted view as the gradient, which most
// other rules do not take; that of a reshape gives a copy then. So while the
// gradients are made there is a reshape to the same shape before it.
static bool goggml_permutes(const struct ggml_tensor *node) {
	return (node->op == GGML_OP_PERMUTE || node->op == GGML_OP_TRANSPOSE) &&
		node->src[0]->type == GGML_TYPE_F32 && goggml_has_layout(node->src[0], GOGGML_CANONICAL);
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
	goggml_fit_nodes(tensors, extended, first);
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
	// Other graphs with these nodes know nothing of the reshapes.
	for (int i = 0; i < n; i++) {
		ggml_graph_node(graph, i)->src[0] = sources[i];
	}
	free(sources);
	return result;
}
