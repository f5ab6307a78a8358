//go:build ignore

#include "sched.h"
#include "graph_alloc.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

// GGML_SCHED_MAX_SPLIT_INPUTS of ggml-backend.cpp: each input has up to two copies.
enum { GOGGML_SPLIT_INPUTS = 30 };

size_t goggml_sched_room(size_t graph_size) {
	return graph_size * GOGGML_SPLIT_INPUTS * 2 * sizeof(struct ggml_tensor);
}

bool goggml_can_allocate(size_t bytes) {
	void *volatile probe = malloc(bytes); // volatile: otherwise the compiler assumes success
	free(probe);
	return probe != NULL;
}

goggml_ptr goggml_sched_new(ggml_backend_t *backends, ggml_backend_buffer_type_t *types, int n, size_t graph_size, bool parallel, bool op_offload) {
	GUARDED(goggml_ptr, ggml_backend_sched_new(backends, types, n, graph_size, parallel, op_offload))
}

goggml_int goggml_sched_reserve(ggml_backend_sched_t sched, struct ggml_cgraph *graph) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_backend_sched_reserve(sched, graph))
}

typedef void (*goggml_leaf_function)(struct ggml_tensor *leaf, void *arg);

static void goggml_if_unassigned(struct ggml_tensor *t, goggml_leaf_function f, void *arg) {
	if (t != NULL && t->op == GGML_OP_NONE && t->data == NULL) {
		f(t, arg);
		goggml_if_unassigned(t->view_src, f, arg); // the source of an alias
	}
}

// Calls f for unallocated leaves that ggml leaves unassigned: leaves used only by views, or not at
// all.
static void goggml_each_unassigned(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, goggml_leaf_function f, void *arg) {
	for (int i = 0; i < n_leaves; i++) {
		goggml_if_unassigned(leaves[i], f, arg);
	}
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		if (goggml_is_layout_op(node)) {
			goggml_if_unassigned(node, f, arg);
			goggml_if_unassigned(node->src[0], f, arg);
		}
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			if (node->src[s] != NULL && node->src[s]->view_src != NULL) {
				goggml_if_unassigned(node->src[s], f, arg);
			}
		}
		goggml_if_unassigned(ggml_graph_get_grad_acc(graph, node), f, arg);
	}
}

struct goggml_assignment {
	ggml_backend_sched_t sched;
	ggml_backend_t backend;
};

static void goggml_assign_leaf(struct ggml_tensor *leaf, void *arg) {
	struct goggml_assignment *a = arg;
	ggml_backend_sched_set_tensor_backend(a->sched, leaf, a->backend);
}

static void goggml_assign_leaves(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, ggml_backend_t backend) {
	goggml_each_unassigned(graph, leaves, n_leaves, goggml_assign_leaf, &(struct goggml_assignment){sched, backend});
}

goggml_error goggml_sched_assign_leaves(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, ggml_backend_t backend) {
	GUARDED_VOID(goggml_assign_leaves(sched, graph, leaves, n_leaves, backend))
}

static bool goggml_is_weight(const struct ggml_tensor *t) {
	return t->buffer != NULL && ggml_backend_buffer_get_usage(t->buffer) == GGML_BACKEND_BUFFER_USAGE_WEIGHTS;
}

// The scheduler computes where weights lie. It recognises views of weights only once they are
// allocated, which it does after choosing.
static void goggml_init_weight_views(struct ggml_cgraph *graph) {
	for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
		struct ggml_tensor **src = ggml_graph_node(graph, i)->src;
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			struct ggml_tensor *t = src[s];
			if (t != NULL && t->view_src != NULL && t->buffer == NULL && t->view_src->data != NULL && goggml_is_weight(t->view_src)) {
				ggml_backend_view_init(t);
			}
		}
	}
}

goggml_error goggml_sched_init_weight_views(struct ggml_cgraph *graph) {
	GUARDED_VOID(goggml_init_weight_views(graph))
}

goggml_int goggml_sched_alloc(ggml_backend_sched_t sched, struct ggml_cgraph *graph) {
	goggml_memory_changed();
	GUARDED(goggml_int, goggml_graph_allocated(ggml_backend_sched_alloc_graph(sched, graph), graph))
}

goggml_int goggml_sched_compute(void *sched, void *graph) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_backend_sched_graph_compute(sched, graph))
}

goggml_int goggml_sched_compute_async(void *sched, void *graph) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_backend_sched_graph_compute_async(sched, graph))
}

goggml_error goggml_sched_synchronize(ggml_backend_sched_t sched) {
	GUARDED_VOID(ggml_backend_sched_synchronize(sched))
}

goggml_error goggml_sched_split(ggml_backend_sched_t sched, struct ggml_cgraph *graph) {
	goggml_memory_changed();
	GUARDED_VOID(ggml_backend_sched_split_graph(sched, graph))
}

struct ggml_tensor *goggml_graph_next_in_place(struct ggml_cgraph *graph, int *i) {
	int n = ggml_graph_n_nodes(graph);
	while (*i < n) {
		struct ggml_tensor *node = ggml_graph_node(graph, (*i)++);
		if (node->view_src != NULL && node->view_src->data == NULL && !goggml_is_layout_op(node)) {
			return node;
		}
	}
	return NULL;
}

enum { GOGGML_FLAG_UNASSIGNED = 1 << 30 };

static void goggml_mark_input(struct ggml_tensor *leaf, void *arg) {
	(void)arg;
	if (!(leaf->flags & GGML_TENSOR_FLAG_INPUT)) {
		leaf->flags |= GGML_TENSOR_FLAG_INPUT | GOGGML_FLAG_UNASSIGNED;
	}
}

static void goggml_unmark_input(struct ggml_tensor *leaf, void *arg) {
	(void)arg;
	if (leaf->flags & GOGGML_FLAG_UNASSIGNED) {
		leaf->flags &= ~(GGML_TENSOR_FLAG_INPUT | GOGGML_FLAG_UNASSIGNED);
	}
}

static goggml_error goggml_measure(ggml_backend_sched_t sched, struct ggml_cgraph *graph, size_t *sizes) {
	GUARDED_VOID(ggml_backend_sched_reserve_size(sched, graph, sizes))
}

// Gives each node one more operand, an empty weight of its backend, before other weights: ggml
// computes where the first weight lies. The empty weight looks like the weight that it displaces,
// which moves to the end.
static struct ggml_tensor *goggml_add_weights(ggml_backend_sched_t sched, goggml_owned owned) {
	struct ggml_tensor *added = calloc((size_t)owned.n, sizeof *added);
	for (int i = 0; added != NULL && i < owned.n; i++) {
		struct ggml_tensor **src = owned.nodes[i]->src;
		int first = 0, last = 0;
		while (first < GGML_MAX_SRC - 1 && src[first] != NULL && !goggml_is_weight(src[first])) {
			first++;
		}
		while (last < GGML_MAX_SRC - 1 && src[last] != NULL) {
			last++;
		}
		if (src[last] != NULL) {
			continue;
		}
		const struct ggml_tensor *like = src[first] != NULL ? src[first] : owned.nodes[i];
		added[i].type = like->type;
		memcpy(added[i].ne, like->ne, sizeof like->ne);
		memcpy(added[i].nb, like->nb, sizeof like->nb);
		added[i].buffer = ggml_backend_buft_alloc_buffer(ggml_backend_sched_get_buffer_type(sched, owned.backends[i]), 0);
		ggml_backend_buffer_set_usage(added[i].buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
		src[last] = src[first];
		src[first] = &added[i];
	}
	return added;
}

static void goggml_remove_weights(goggml_owned owned, struct ggml_tensor *added) {
	for (int i = 0; added != NULL && i < owned.n; i++) {
		struct ggml_tensor **src = owned.nodes[i]->src;
		int first = 0, last = GGML_MAX_SRC - 1;
		while (first < last && src[first] != &added[i]) {
			first++;
		}
		while (last > first && src[last] == NULL) {
			last--;
		}
		if (src[first] == &added[i]) {
			src[first] = NULL;
			if (last > first) {
				src[first] = src[last];
				src[last] = NULL;
			}
			ggml_backend_buffer_free(added[i].buffer);
		}
	}
	free(added);
}

// Measuring forgets assigned backends, but not where inputs go, nor where weights lie: so the
// leaves are inputs meanwhile, and each node has a weight of its backend.
goggml_error goggml_sched_measure(ggml_backend_sched_t sched, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, goggml_owned owned, size_t *sizes) {
	goggml_each_unassigned(graph, leaves, n_leaves, goggml_mark_input, NULL);
	struct ggml_tensor *added = goggml_add_weights(sched, owned);
	goggml_error error = goggml_measure(sched, graph, sizes);
	goggml_remove_weights(owned, added);
	goggml_each_unassigned(graph, leaves, n_leaves, goggml_unmark_input, NULL);
	return error;
}

goggml_error goggml_sched_reset(ggml_backend_sched_t sched) {
	GUARDED_VOID(ggml_backend_sched_reset(sched))
}

goggml_error goggml_sched_set_tensor_backend(ggml_backend_sched_t sched, struct ggml_tensor *node, ggml_backend_t backend) {
	GUARDED_VOID(ggml_backend_sched_set_tensor_backend(sched, node, backend))
}
