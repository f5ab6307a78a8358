//go:build ignore

#include "graph_memory.h"
#include "graph_build.h"
#include "ptr_table.h"
#include "tensor.h"

#include <stdlib.h>

static void goggml_graph_memory_add(goggml_graph_memory *memory, struct ggml_tensor *t) {
	goggml_drop_stale(t);
	if (t->data == NULL) {
		memory->tensors[memory->n++] = t;
	}
}

static void goggml_graph_memory_add_leaf(goggml_graph_memory *memory, struct ggml_tensor *t) {
	goggml_graph_memory_add(memory, t);
	if (t->view_src != NULL && t->view_src->op == GGML_OP_NONE) {
		goggml_graph_memory_add(memory, t->view_src); // the source of an alias
	}
}

goggml_graph_memory goggml_graph_memory_new(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	goggml_graph_memory memory = {0};
	int n = ggml_graph_n_nodes(graph);
	memory.tensors = malloc(sizeof *memory.tensors * ((size_t)n * (2 + 2 * GGML_MAX_SRC) + 2 * (size_t)n_leaves + 1));
	for (int i = 0; memory.tensors != NULL && i < n_leaves; i++) {
		goggml_graph_memory_add_leaf(&memory, leaves[i]);
	}
	for (int i = 0; memory.tensors != NULL && i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		goggml_graph_memory_add(&memory, node);
		struct ggml_tensor *grad = ggml_graph_get_grad_acc(graph, node);
		if (grad != NULL && grad->op == GGML_OP_NONE) {
			goggml_graph_memory_add(&memory, grad);
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			// A source that is a node has been added already.
			struct ggml_tensor *src = node->src[s];
			if (src != NULL && src->op == GGML_OP_NONE) {
				goggml_graph_memory_add_leaf(&memory, src);
			}
		}
	}
	return memory;
}

// Mixes a tensor into the signature: its number, equal in all graphs that share a plan, and its
// size.
static uint64_t goggml_hash_tensor(uint64_t hash, goggml_ptr_table *numbers, const struct ggml_tensor *t) {
	if (t == NULL || t->data != NULL) {
		return goggml_hash_mix(hash, t != NULL);
	}
	hash = goggml_hash_mix(hash, 2 + goggml_ptr_table_number(numbers, t));
	if (t->view_src != NULL) {
		return goggml_hash_tensor(hash, numbers, t->view_src);
	}
	int32_t lasting = t->flags & (GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
	return goggml_hash_mix(hash, ggml_nbytes(t) << 4 ^ (uint64_t)lasting);
}

static uint64_t goggml_hash_graph(goggml_ptr_table *numbers, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	int n = ggml_graph_n_nodes(graph);
	uint64_t hash = goggml_hash_mix((uint64_t)n, (uint64_t)n_leaves);
	for (int i = 0; i < n_leaves; i++) {
		hash = goggml_hash_tensor(hash, numbers, leaves[i]);
	}
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		hash = goggml_hash_mix(goggml_hash_tensor(hash, numbers, node), node->op);
		hash = goggml_hash_tensor(hash, numbers, ggml_graph_get_grad_acc(graph, node));
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] != NULL) {
				hash = goggml_hash_tensor(hash, numbers, node->src[s]);
			}
		}
	}
	return hash | 1;
}

uint64_t goggml_graph_signature(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves) {
	// Leaves, nodes and their sources, each with its view source, and a gradient accumulator per
	// node.
	goggml_ptr_table numbers;
	if (!goggml_ptr_table_init(&numbers, 3 * (goggml_graph_count_uses(graph) + (size_t)n_leaves))) {
		return 0;
	}
	uint64_t hash = goggml_hash_graph(&numbers, graph, leaves, n_leaves);
	goggml_ptr_table_free(&numbers);
	return hash;
}

bool goggml_graph_memory_in(const goggml_graph_memory *memory, const goggml_arena *arena) {
	for (int64_t i = 0; i < memory->n; i++) {
		if (goggml_arena_owns(arena, memory->tensors[i])) {
			return true;
		}
	}
	return false;
}

void goggml_graph_memory_free(goggml_graph_memory *memory) {
	goggml_memory_changed();
	for (int64_t i = 0; i < memory->n; i++) {
		memory->tensors[i]->data = NULL;
		memory->tensors[i]->buffer = NULL;
	}
	free(memory->tensors);
	*memory = (goggml_graph_memory){0};
}
