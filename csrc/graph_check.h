// Checks of a graph before it is allocated or computed: for what would end the process in a compute.
#ifndef GOGGML_GRAPH_CHECK_H
#define GOGGML_GRAPH_CHECK_H

#include "arena.h"
#include "row_index.h"

enum goggml_fault {
	GOGGML_FAULT_NONE,
	GOGGML_FAULT_UNALLOCATED,        // a node or an operand has no memory
	GOGGML_FAULT_INDEX,              // a row index is out of range
	GOGGML_FAULT_OVERWRITTEN,        // the graph changes row indices in place
	GOGGML_FAULT_UNSUPPORTED,        // no device runs the op
	GOGGML_FAULT_REPACKED,           // the op takes no repacked weights
	GOGGML_FAULT_BUFFER_UNREACHABLE, // the one device has no access to the operand's buffer
	GOGGML_FAULT_CUSTOM_NOT_HOST,    // a custom op, which the CPU runs, changes memory of a device in place
};

// The key under which the outcome of a check is cached: all that it depends on, but for the row indices that the
// caller wrote.
typedef struct {
	struct ggml_cgraph *graph;
	int nodes;               // a graph only gets more of them
	uint64_t memory_version; // before the check
	uint64_t devices;        // a hash of the devices, of whether memory is checked, and of settings of precision
	uint64_t support;        // a hash of the nodes and kinds of memory, on which the devices' support depends
	bool row_indices;        // whether they are checked
} goggml_check_key;

typedef struct {
	enum goggml_fault fault;
	struct ggml_tensor *node;    // the node at fault
	struct ggml_tensor *operand; // the operand at fault, or NULL
	int64_t value, limit;        // for a row index: it, and the number of rows
	const char *refusal;         // why a device is not asked for an unsupported op, or NULL
	goggml_check_key key;
	bool unchanged; // the cached check still holds
} goggml_check;

// Looks for ops that none of the devices supports, where some are given; with memory, for tensors that have none; with
// row_indices, for those out of range.
//
// A check without a fault is cached by its key and the row indices that it saw: a graph has hundreds of nodes, which
// have left the processor's cache by the next compute. While the key holds, only the indices are read again. The
// devices are asked again only when the hash of their support differs: that takes longer than a small op.
goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool memory, bool row_indices,
	const goggml_check_key *cached, const goggml_row_index *cached_indices, int n_cached);

#endif
