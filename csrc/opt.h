// Data sets, optimizers and their results, guarded.
#ifndef GOGGML_OPT_H
#define GOGGML_OPT_H

#include "arena.h"

goggml_ptr goggml_dataset_new(enum ggml_type data, enum ggml_type label, int64_t ne_data, int64_t ne_label, int64_t n, int64_t shard);
goggml_error goggml_dataset_shuffle(ggml_opt_context_t opt, ggml_opt_dataset_t dataset, int64_t n);
goggml_error goggml_dataset_batch(ggml_opt_dataset_t dataset, struct ggml_tensor *data, struct ggml_tensor *labels, int64_t batch);
goggml_error goggml_dataset_batch_host(ggml_opt_dataset_t dataset, void *data, size_t size, void *labels, int64_t batch);

// An optimizer with a scheduler of its own: ggml does not track other allocations in its scheduler.
typedef struct {
	ggml_backend_sched_t sched;
	ggml_opt_context_t opt;
	struct ggml_opt_optimizer_params pars; // settings of the next step
} goggml_optimizer;

// The options of NewOptimizer. arena, inputs and outputs are NULL for dynamic graphs; for a static
// graph n_nodes is its number of nodes.
typedef struct {
	enum ggml_opt_loss_type loss;
	enum ggml_opt_build_type build;
	enum ggml_opt_optimizer_type optimizer;
	int32_t period;
	size_t graph_size;
	goggml_arena *arena;
	struct ggml_tensor *inputs, *outputs;
	int64_t n_nodes;
} goggml_opt_options;

goggml_ptr goggml_opt_new(ggml_backend_t *backends, int n_backends, goggml_opt_options options);
void goggml_opt_free(goggml_optimizer *o);

// Gives the optimizer a copy of the graph, which lives in the arena.
goggml_error goggml_opt_prepare(goggml_optimizer *o, goggml_arena *arena, struct ggml_cgraph *graph, struct ggml_tensor *inputs, struct ggml_tensor *outputs);
// With first, no gradients are accumulated yet. The value is 0 if memory is short.
goggml_int goggml_opt_alloc(goggml_optimizer *o, bool backward, bool first);
// The value is a ggml_status.
goggml_int goggml_opt_eval(void *optimizer, void *sum);
goggml_error goggml_opt_reset(goggml_optimizer *o, bool optimizer);
goggml_ptr goggml_opt_grad_acc(goggml_optimizer *o, struct ggml_tensor *node);

// Returns the buffer of the moments, accumulated gradients and results, NULL before the first
// graph. graph is the current graph, with a step of the optimizer.
goggml_ptr goggml_opt_buffer(goggml_optimizer *o, struct ggml_cgraph *graph);

enum goggml_opt_fault {
	GOGGML_OPT_OK,
	GOGGML_OPT_NO_MEMORY,          // a leaf is unallocated
	GOGGML_OPT_NOT_IN_GRAPH,       // the outputs are not in the graph
	GOGGML_OPT_UNUSED,             // no node uses the inputs
	GOGGML_OPT_TYPE,               // a parameter is not F32, or not contiguous
	GOGGML_OPT_BUFFER_UNREACHABLE, // a parameter is not in memory of the first backend
};

typedef struct {
	enum goggml_opt_fault fault;
	struct ggml_tensor *tensor;
} goggml_opt_check;

// Finds faults that ggml ignores, or reports only by an assertion.
goggml_opt_check goggml_opt_check_graph(struct ggml_cgraph *graph, struct ggml_tensor *inputs, struct ggml_tensor *outputs, ggml_backend_t first, bool dynamic);

// Maximum number of nodes, and additionally leaves, in the graphs of an optimizer: forward,
// gradients and steps.
typedef struct { int64_t nodes, leaves; goggml_error error; } goggml_opt_size;
goggml_opt_size goggml_opt_measure(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs, bool backward);

// The value is a parameter whose gradient is not contiguous, or NULL. The optimizers' steps require
// contiguous gradients, and do not check.
goggml_ptr goggml_opt_noncontiguous_grad(goggml_arena *scratch, struct ggml_cgraph *graph, struct ggml_tensor *outputs);

#endif
