// Checks of a graph before it is allocated or computed, for faults that would end the process.
#ifndef GOGGML_GRAPH_CHECK_H
#define GOGGML_GRAPH_CHECK_H

#include "arena.h"
#include "row_index.h"

enum goggml_fault {
	GOGGML_FAULT_NONE,
	GOGGML_FAULT_UNALLOCATED,        // a node or an operand is unallocated
	GOGGML_FAULT_INDEX,              // a row index is out of range
	GOGGML_FAULT_OVERWRITTEN,        // the graph changes row indices in place
	GOGGML_FAULT_UNSUPPORTED,        // no device supports the op
	GOGGML_FAULT_REPACKED,           // the op does not support repacked weights
	GOGGML_FAULT_BUFFER_UNREACHABLE, // the only device cannot access the operand's buffer
	GOGGML_FAULT_CUSTOM_NOT_HOST,    // a custom op, which the CPU runs, changes device memory in place
};

// The key of a cached check: everything that the result depends on, except the row indices that the
// caller wrote.
typedef struct {
	struct ggml_cgraph *graph;
	int nodes;               // a graph only gains nodes
	uint64_t memory_version; // from before the check
	uint64_t devices;        // hash of the devices, of whether memory is checked, and of precision settings
	uint64_t support;        // hash of the nodes and kinds of memory, which determine the devices' support
	bool row_indices;        // whether row indices are checked
} goggml_check_key;

typedef struct {
	enum goggml_fault fault;
	struct ggml_tensor *node;    // the node at fault
	struct ggml_tensor *operand; // the operand at fault, or NULL
	int64_t value, limit;        // for a row index: its value, and the number of rows
	const char *refusal;         // why a device is not asked about an unsupported op, or NULL
	goggml_check_key key;
	bool unchanged; // the cached check is still valid
} goggml_check;

// Looks for ops that none of the devices supports, if devices are given; with memory, for
// unallocated tensors; with row_indices, for row indices out of range.
//
// A check without a fault is cached with its key and its row indices: a graph has hundreds of
// nodes, which have left the processor's cache by the next compute. While the key is unchanged,
// only the indices are read again. The devices are asked again only if the hash of their support
// changes: asking takes longer than a small op.
goggml_check goggml_graph_check(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n_devices, bool memory, bool row_indices,
	const goggml_check_key *cached, const goggml_row_index *cached_indices, int n_cached);

#endif
