// Graphs: building, growth, and the checks before a compute.
#ifndef GOGGML_GRAPH_H
#define GOGGML_GRAPH_H

#include "arena.h"

// A new graph with room for that many nodes and as many leaves.
goggml_ptr goggml_graph_new(goggml_arena *arena, size_t size, bool grads);
// A graph of another size with the nodes of an existing one.
goggml_ptr goggml_graph_grow(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads);
goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor *tensor);
// The tensors of the gradients go to tensors_arena. grad_accs may be NULL.
goggml_error goggml_graph_backward(goggml_arena *tensors_arena, struct ggml_cgraph *graph, struct ggml_tensor **grad_accs);
goggml_error goggml_graph_reset(struct ggml_cgraph *graph);

enum goggml_fault {
	GOGGML_FAULT_NONE,
	GOGGML_FAULT_UNALLOCATED, // a node or an operand has no memory
	GOGGML_FAULT_INDEX,       // a row index is out of range
	GOGGML_FAULT_UNSUPPORTED, // the device does not run the op
};

typedef struct {
	enum goggml_fault fault;
	struct ggml_tensor *node;    // the node at fault
	struct ggml_tensor *operand; // the operand at fault, or NULL
	int64_t value, limit;        // for an index: it, and the number of rows
} goggml_check;

// Finds what would crash a compute. device may be NULL: no check of support.
goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t device, bool allocated);

// The tensors of a graph that an allocator gave memory to.
typedef struct {
	struct ggml_tensor **tensors;
	int64_t n;
} goggml_lease;

// Lists the tensors of the graph that have no memory yet.
goggml_lease goggml_lease_open(struct ggml_cgraph *graph);
// Makes them unallocated again, and frees the list.
void goggml_lease_end(goggml_lease *lease);

#endif
