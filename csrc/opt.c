//go:build ignore

#include "opt.h"
#include "tensor.h"

#include <stdlib.h>
#include <string.h>

static ggml_opt_dataset_t goggml_dataset_init(enum ggml_type data, enum ggml_type label, int64_t ne_data, int64_t ne_label, int64_t n, int64_t shard) {
	ggml_opt_dataset_t dataset = ggml_opt_dataset_init(data, label, ne_data, ne_label, n, shard);
	// ggml does not check that it got memory.
	if (ggml_opt_dataset_data(dataset)->data == NULL) {
		ggml_opt_dataset_free(dataset);
		return NULL;
	}
	return dataset;
}

goggml_ptr goggml_dataset_new(enum ggml_type data, enum ggml_type label, int64_t ne_data, int64_t ne_label, int64_t n, int64_t shard) {
	GUARDED(goggml_ptr, goggml_dataset_init(data, label, ne_data, ne_label, n, shard))
}

goggml_error goggml_dataset_shuffle(ggml_opt_context_t opt, ggml_opt_dataset_t dataset, int64_t n) {
	GUARDED_VOID(ggml_opt_dataset_shuffle(opt, dataset, n))
}

goggml_error goggml_dataset_batch(ggml_opt_dataset_t dataset, struct ggml_tensor *data, struct ggml_tensor *labels, int64_t batch) {
	GUARDED_VOID(ggml_opt_dataset_get_batch(dataset, data, labels, batch))
}

goggml_error goggml_dataset_batch_host(ggml_opt_dataset_t dataset, void *data, size_t size, void *labels, int64_t batch) {
	GUARDED_VOID(ggml_opt_dataset_get_batch_host(dataset, data, size, labels, batch))
}

// Returns a context with room for the graphs of an optimizer (forward, gradients and step) and for
// the tensors it adds to n nodes: a rule of the backward pass makes fewer than 16.
static struct ggml_context *goggml_opt_room(goggml_arena *arena, size_t graph_size, int64_t n_nodes) {
	return goggml_arena_room(arena, 3 * (ggml_graph_overhead_custom(graph_size, true) + ggml_tensor_overhead()) +
		(size_t)(n_nodes + 8) * GOGGML_OP_ROOM);
}

static goggml_optimizer *goggml_opt_init(ggml_backend_t *backends, int n_backends, goggml_opt_options options) {
	goggml_optimizer *o = calloc(1, sizeof *o);
	if (o == NULL) {
		GGML_ABORT("out of memory");
	}
	o->sched = ggml_backend_sched_new(backends, NULL, n_backends, options.graph_size, false, false);
	o->pars = ggml_opt_get_default_optimizer_params(NULL);
	struct ggml_opt_params params = ggml_opt_default_params(o->sched, options.loss);
	if (options.arena != NULL) {
		params.ctx_compute = goggml_opt_room(options.arena, GGML_DEFAULT_GRAPH_SIZE, options.n_nodes);
		params.inputs = options.inputs;
		params.outputs = options.outputs;
	}
	params.build_type = options.build;
	params.opt_period = options.period;
	params.optimizer = options.optimizer;
	params.get_opt_pars = ggml_opt_get_constant_optimizer_params;
	params.get_opt_pars_ud = &o->pars;
	o->opt = ggml_opt_init(params);
	return o;
}

goggml_ptr goggml_opt_new(ggml_backend_t *backends, int n_backends, goggml_opt_options options) {
	GUARDED(goggml_ptr, goggml_opt_init(backends, n_backends, options))
}

void goggml_opt_free(goggml_optimizer *o) {
	ggml_opt_free(o->opt);
	ggml_backend_sched_free(o->sched);
	free(o);
}

// ggml adds the loss to the given graph, hence a copy of the caller's.
static void goggml_prepare(goggml_optimizer *o, goggml_arena *arena, struct ggml_cgraph *graph, struct ggml_tensor *inputs, struct ggml_tensor *outputs) {
	int64_t n = ggml_graph_n_nodes(graph);
	size_t size = 16 * (size_t)(n + 8);
	struct ggml_context *ctx = goggml_opt_room(arena, size, n);
	struct ggml_cgraph *copy = ggml_new_graph_custom(ctx, size, true);
	for (int64_t i = 0; i < n; i++) {
		ggml_build_forward_expand(copy, ggml_graph_node(graph, i));
	}
	ggml_opt_prepare_alloc(o->opt, ctx, copy, inputs, outputs);
}

goggml_error goggml_opt_prepare(goggml_optimizer *o, goggml_arena *arena, struct ggml_cgraph *graph, struct ggml_tensor *inputs, struct ggml_tensor *outputs) {
	goggml_memory_changed();
	GUARDED_VOID(goggml_prepare(o, arena, graph, inputs, outputs))
}

static int64_t goggml_alloc(goggml_optimizer *o, bool backward, bool first) {
	ggml_opt_alloc(o->opt, backward);
	if (ggml_opt_loss(o->opt)->data == NULL) {
		return 0;
	}
	// ggml clears the accumulated gradients only in some cases: never for dynamic graphs, and for
	// static graphs not after a forward pass.
	if (backward && first) {
		ggml_opt_reset(o->opt, false);
	}
	return 1;
}

goggml_int goggml_opt_alloc(goggml_optimizer *o, bool backward, bool first) {
	goggml_memory_changed();
	GUARDED(goggml_int, goggml_alloc(o, backward, first))
}

// A NaN that no computation produces.
static const uint32_t goggml_no_loss = 0x7fc5a5a5;

// ggml does not report whether the graph was computed. The loss shows it, if it has memory of its
// own.
static int64_t goggml_eval(goggml_optimizer *o, ggml_opt_result_t sum) {
	struct ggml_tensor *loss = ggml_opt_loss(o->opt);
	bool probe = ggml_opt_static_graphs(o->opt);
	if (probe) {
		ggml_backend_tensor_set(loss, &goggml_no_loss, 0, sizeof goggml_no_loss);
	}
	ggml_opt_eval(o->opt, sum);
	uint32_t bits = 0;
	if (probe) {
		ggml_backend_tensor_get(loss, &bits, 0, sizeof bits);
	}
	return bits == goggml_no_loss ? GGML_STATUS_ALLOC_FAILED : GGML_STATUS_SUCCESS;
}

goggml_int goggml_opt_eval(void *optimizer, void *sum) {
	goggml_memory_changed();
	GUARDED(goggml_int, goggml_eval(optimizer, sum))
}

goggml_error goggml_opt_reset(goggml_optimizer *o, bool optimizer) {
	GUARDED_VOID(ggml_opt_reset(o->opt, optimizer))
}

goggml_ptr goggml_opt_grad_acc(goggml_optimizer *o, struct ggml_tensor *node) {
	GUARDED(goggml_ptr, ggml_opt_grad_acc(o->opt, node))
}

// ggml does not return its buffer, but tensors that lie in it.
static ggml_backend_buffer_t goggml_own_buffer(goggml_optimizer *o, struct ggml_cgraph *graph) {
	struct ggml_tensor *t = ggml_opt_static_graphs(o->opt) ? ggml_opt_loss(o->opt) : NULL;
	for (int i = 0; t == NULL && i < ggml_graph_n_nodes(graph); i++) {
		t = ggml_opt_grad_acc(o->opt, ggml_graph_node(graph, i));
	}
	return t == NULL ? NULL : t->buffer;
}

goggml_ptr goggml_opt_buffer(goggml_optimizer *o, struct ggml_cgraph *graph) {
	GUARDED(goggml_ptr, goggml_own_buffer(o, graph))
}

static enum goggml_opt_fault goggml_opt_param_fault(const struct ggml_tensor *param, ggml_backend_t first) {
	if (param->type != GGML_TYPE_F32 || !ggml_is_contiguous(param)) {
		return GOGGML_OPT_TYPE;
	}
	// The moments lie on the first backend. A step on another would change copies of them.
	if (!ggml_backend_supports_buft(first, ggml_backend_buffer_get_type(param->buffer))) {
		return GOGGML_OPT_BUFFER_UNREACHABLE;
	}
	return GOGGML_OPT_OK;
}

// Reports whether the tensor's memory does not belong to a graph allocator, which would take it
// back.
static bool goggml_owns_memory(const struct ggml_tensor *t) {
	return t->buffer != NULL && goggml_has_memory(t) &&
		ggml_backend_buffer_get_usage(t->buffer) != GGML_BACKEND_BUFFER_USAGE_COMPUTE;
}

goggml_opt_check goggml_opt_check_graph(struct ggml_cgraph *graph, struct ggml_tensor *inputs, struct ggml_tensor *outputs, ggml_backend_t first, bool dynamic) {
	goggml_opt_check check = {GOGGML_OPT_OK, NULL};
	bool used = false, inside = false;
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(graph, i);
		inside = inside || node == outputs;
		for (int s = -1; s < GGML_MAX_SRC; s++) {
			struct ggml_tensor *t = s < 0 ? node : node->src[s];
			if (t == NULL) {
				continue;
			}
			used = used || t == inputs;
			bool later = dynamic && (t->flags & GGML_TENSOR_FLAG_INPUT) && !(t->flags & GGML_TENSOR_FLAG_PARAM);
			if (t->op == GGML_OP_NONE && !later && !goggml_owns_memory(t)) {
				return (goggml_opt_check){GOGGML_OPT_NO_MEMORY, t};
			}
			bool param = (t->flags & GGML_TENSOR_FLAG_PARAM) != 0;
			if (param && t->op == GGML_OP_NONE && (check.fault = goggml_opt_param_fault(t, first)) != GOGGML_OPT_OK) {
				check.tensor = t;
				return check;
			}
		}
	}
	if (!inside) {
		return (goggml_opt_check){GOGGML_OPT_NOT_IN_GRAPH, outputs};
	}
	if (!used) {
		return (goggml_opt_check){GOGGML_OPT_UNUSED, inputs};
	}
	return check;
}

// Returns a copy of the graph, with the gradients of the sum of the outputs.
static struct ggml_cgraph *goggml_derived(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs) {
	int n = ggml_graph_n_nodes(graph);
	size_t size = 16 * (size_t)(n + 8);
	struct ggml_context *ctx = goggml_opt_room(scratch, size, n);
	struct ggml_cgraph *copy = ggml_new_graph_custom(ctx, size, true);
	for (int i = 0; i < n; i++) {
		ggml_build_forward_expand(copy, ggml_graph_node(graph, i));
	}
	struct ggml_tensor *loss = ggml_sum(ctx, outputs);
	ggml_set_loss(loss);
	ggml_build_forward_expand(copy, loss);
	ggml_build_backward_expand(ctx, copy, NULL);
	return copy;
}

static struct ggml_tensor *goggml_noncontiguous_grad(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs) {
	struct ggml_cgraph *copy = goggml_derived(scratch, graph, outputs);
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		struct ggml_tensor *node = ggml_graph_node(copy, i);
		struct ggml_tensor *grad = ggml_graph_get_grad(copy, node);
		if ((node->flags & GGML_TENSOR_FLAG_PARAM) && grad != NULL && !ggml_is_contiguous(grad)) {
			return node;
		}
	}
	return NULL;
}

goggml_ptr goggml_opt_noncontiguous_grad(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs) {
	GUARDED(goggml_ptr, goggml_noncontiguous_grad(scratch, graph, outputs))
}

static goggml_ptr goggml_try_derive(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs) {
	GUARDED(goggml_ptr, goggml_derived(scratch, graph, outputs))
}

goggml_opt_size goggml_opt_measure(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs, bool backward) {
	enum { LOSS = 16 }; // nodes and leaves for the loss and the predictions
	int64_t params = 0;
	int n = ggml_graph_n_nodes(graph);
	for (int i = 0; i < n; i++) {
		params += (ggml_graph_node(graph, i)->flags & GGML_TENSOR_FLAG_PARAM) != 0;
	}
	if (backward) {
		goggml_ptr derived = goggml_try_derive(scratch, graph, outputs);
		if (derived.error != NULL) {
			return (goggml_opt_size){0, 0, derived.error};
		}
		graph = derived.value;
	}
	int64_t nodes = ggml_graph_n_nodes(graph), leaves = 0;
	for (int i = 0; i < nodes; i++) {
		for (int s = 0; s < GGML_MAX_SRC; s++) {
			struct ggml_tensor *t = ggml_graph_node(graph, i)->src[s];
			// A leaf used twice counts twice; parameters are among the nodes.
			leaves += t != NULL && t->op == GGML_OP_NONE && !(t->flags & GGML_TENSOR_FLAG_PARAM);
		}
	}
	// Each parameter adds an accumulated gradient and a step to the nodes, and the accumulator and
	// two moments to the leaves.
	return (goggml_opt_size){nodes + 2 * params + LOSS, leaves + 3 * params + LOSS, NULL};
}
