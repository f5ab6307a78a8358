// Graphs: building, growth, and the checks before a compute.
#ifndef GOGGML_GRAPH_H
#define GOGGML_GRAPH_H

#include "arena.h"

// A new graph with room for that many nodes and as many leaves; aborts without
// memory, and so must be called inside a guard.
struct ggml_cgraph *goggml_new_graph(goggml_arena *arena, size_t size, bool grads);
goggml_ptr goggml_graph_new(goggml_arena *arena, size_t size, bool grads);
// A graph of another size with the nodes of an existing one.
goggml_ptr goggml_graph_grow(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads);
// A graph of the same nodes, with all leaves that these have.
goggml_ptr goggml_graph_rebuild(goggml_arena *arena, struct ggml_cgraph *graph);
// Adds tensors, each with what it depends on. The library does so by recursion,
// which overflows the stack when there is much of that. Without compute they are
// only put in order.
goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor **tensors, size_t n, bool compute);

// Why a tensor cannot be the next node of a graph.
enum goggml_admission {
	GOGGML_ADMITTED = GGML_MAX_SRC, // it can; a smaller number is that of a source that is missing
	GOGGML_PRESENT,                 // it is a node already
};
int goggml_graph_admits(struct ggml_cgraph *graph, const struct ggml_tensor *tensor);
// The tensor whose values a view shows, however often permuted or reshaped.
const struct ggml_tensor *goggml_origin(const struct ggml_tensor *tensor);
// Sets the gradient of the loss to 1, other accumulated gradients to 0.
goggml_error goggml_graph_reset(struct ggml_cgraph *graph);
// And the moments of optimizers too.
goggml_error goggml_graph_reset_all(struct ggml_cgraph *graph);

// Counts the tensors of the graph, leaves included; at most one more than the
// limit.
size_t goggml_graph_tensors(struct ggml_cgraph *graph, size_t limit);

// What a graph needs for a backward pass.
typedef struct {
	struct ggml_tensor *loss; // NULL when there is none
	bool params;              // whether a tensor is marked as a parameter
} goggml_marks;

goggml_marks goggml_graph_marks(struct ggml_cgraph *graph);
// Tells whether the tensor is a leaf or a view: nothing is computed for it.
bool goggml_is_layout_op(const struct ggml_tensor *t);
// Tells whether the library is known to have no backward for the node's op.
bool goggml_lacks_backward(const struct ggml_tensor *node);
// Tells whether a node needs a gradient, for the library, because a source does.
bool goggml_passes_need(const struct ggml_tensor *node, int source);
// Tells whether the gradient of the node makes one of the source.
bool goggml_gives_gradient(const struct ggml_tensor *node, int source);
// Tells whether the op overwrites an operand.
bool goggml_works_in_place(const struct ggml_tensor *node);

// Sets a flag of the tensor, and of what it is a view of where that counts.
void goggml_set_flag(struct ggml_tensor *tensor, int32_t flag);

// Tells whether the tensor has memory; a view, that its origin still has it.
bool goggml_has_memory(const struct ggml_tensor *tensor);
// Makes a view unallocated whose origin has other memory by now.
void goggml_drop_stale(struct ggml_tensor *tensor);

enum goggml_fault {
	GOGGML_FAULT_NONE,
	GOGGML_FAULT_UNALLOCATED, // a node or an operand has no memory
	GOGGML_FAULT_INDEX,       // a row index is out of range
	GOGGML_FAULT_OVERWRITTEN, // the graph changes row indices in place
	GOGGML_FAULT_UNSUPPORTED, // no device runs the op
	GOGGML_FAULT_PACKED,      // it lies in memory in which the CPU only multiplies
	GOGGML_FAULT_AWAY,        // it lies in memory that the one device has no access to
	GOGGML_FAULT_REMOTE,      // a function of this process changes it in place, in memory of a device
};

// Where a check without a fault looked: all that it depends on, but for the row
// indices that the caller wrote.
typedef struct {
	struct ggml_cgraph *graph;
	int nodes;        // of which a graph only gets more
	uint64_t changes; // of memory, before it looked
	uint64_t devices, support;
	bool written;
} goggml_finding;

// Tells whether the tensor is one of the graph's: a node, an operand of one, or one of the leaves.
bool goggml_graph_concerns(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, const struct ggml_tensor *tensor);

// Row indices that a node takes.
typedef struct {
	struct ggml_tensor *node, *ids;
	int64_t rows;
} goggml_index;

// Writes to the list, as far as there is room, what row indices the nodes take,
// and returns how many these are.
int goggml_graph_indices(struct ggml_cgraph *graph, goggml_index *list, int room);

typedef struct {
	enum goggml_fault fault;
	struct ggml_tensor *node;    // the node at fault
	struct ggml_tensor *operand; // the operand at fault, or NULL
	int64_t value, limit;        // for an index: it, and the number of rows
	goggml_finding finding;
	bool same; // nothing has changed since the finding before
} goggml_check;

// Finds what would crash a compute: ops that none of the devices supports,
// where some are given; tensors without memory, if allocated; row indices out
// of range, if written. A graph has hundreds of nodes, which are not in the
// processor's cache any more: as long as nothing has changed since the finding
// before, only the row indices that it listed then are looked at. To ask the
// devices again takes longer than a small op, and waits for other kinds of memory.
goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool allocated, bool written,
	const goggml_finding *before, const goggml_index *indices, int n_indices);

// The tensors of a graph that an allocator gave memory to.
typedef struct {
	struct ggml_tensor **tensors;
	int64_t n;
} goggml_lease;

// Lists the tensors of the graph that have no memory yet; leaves are those that
// no node uses. The list's tensors is NULL when there is no room for it.
goggml_lease goggml_lease_open(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);
// A number that two graphs share, in practice, only when the same plan of memory
// suits both; 0 when there is no memory to tell.
uint64_t goggml_graph_plan(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);
// Tells whether one of them lies in the arena.
bool goggml_lease_concerns(const goggml_lease *lease, const goggml_arena *arena);
// Makes them unallocated again, and frees the list.
void goggml_lease_end(goggml_lease *lease);

#endif
