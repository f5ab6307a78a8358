//go:build ignore

#include "graph_build.h"
#include "ptr_table.h"

struct ggml_cgraph *goggml_new_graph(goggml_arena *arena, size_t size, bool grads) {
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

static goggml_error goggml_expand(struct ggml_cgraph *graph, struct ggml_tensor *tensor, bool compute) {
	GUARDED_VOID((compute ? ggml_build_forward_expand : ggml_build_forward_order)(graph, tensor))
}

goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor **tensors, size_t n, bool compute) {
	goggml_memory_changed(); // or computing a node that was not computed before
	goggml_error error = NULL;
	for (size_t i = 0; i < n && error == NULL; i++) {
		error = goggml_expand(graph, tensors[i], compute);
	}
	return error;
}

bool goggml_graph_contains(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, const struct ggml_tensor *tensor) {
	for (int i = 0; i < n_leaves; i++) {
		if (leaves[i] == tensor) {
			return true;
		}
	}
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		const struct ggml_tensor *node = ggml_graph_node(graph, i);
		if (node == tensor) {
			return true;
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] == tensor) {
				return true;
			}
		}
	}
	return false;
}

size_t goggml_graph_count_uses(struct ggml_cgraph *graph) {
	int n = ggml_graph_n_nodes(graph);
	size_t uses = (size_t)n;
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			const struct ggml_tensor *source = node->src[s];
			if (source != NULL && source->op == GGML_OP_NONE) {
				uses += source->src[0] != NULL ? 2 : 1; // an alias and its tensor
			}
		}
	}
	return uses;
}

static struct ggml_cgraph *goggml_rebuild(goggml_arena *arena, struct ggml_cgraph *graph) {
	struct ggml_cgraph *rebuilt = goggml_new_graph(arena, goggml_graph_count_uses(graph), false);
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		ggml_build_forward_expand(rebuilt, ggml_graph_node(graph, i));
	}
	return rebuilt;
}

goggml_ptr goggml_graph_rebuild(goggml_arena *arena, struct ggml_cgraph *graph) {
	GUARDED(goggml_ptr, goggml_rebuild(arena, graph))
}

size_t goggml_graph_count_tensors(struct ggml_cgraph *graph, size_t limit) {
	size_t uses = goggml_graph_count_uses(graph);
	if (uses <= limit) {
		return uses; // an upper bound suffices
	}
	goggml_ptr_table table;
	if (!goggml_ptr_table_init(&table, uses)) {
		return uses;
	}
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n && table.count <= limit; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		goggml_ptr_table_number(&table, node);
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] != NULL && node->src[s]->op == GGML_OP_NONE) {
				goggml_ptr_table_number(&table, node->src[s]);
			}
		}
	}
	goggml_ptr_table_free(&table);
	return table.count;
}
