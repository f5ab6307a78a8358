// Row indices: the operands by which get_rows and others choose rows. ggml asserts that they are in range, on threads
// whose assertions cannot be caught.
#ifndef GOGGML_ROW_INDEX_H
#define GOGGML_ROW_INDEX_H

#include "guard.h"

typedef struct {
	struct ggml_tensor *node, *ids; // the op, and its indices
	int64_t rows;                   // the number of rows to choose from
} goggml_row_index;

// The row indices of a node; false when it takes none, or is not computed.
bool goggml_row_index_of(struct ggml_tensor *node, goggml_row_index *index);

// Lists the row indices of a graph as far as there is room, each once, and returns how many there are.
int goggml_graph_row_indices(struct ggml_cgraph *graph, goggml_row_index *list, int room);

// Finds an index out of range among those that the caller wrote. Those that the graph computes are checked during
// the compute, see op_indices.go.
bool goggml_row_index_out_of_range(const goggml_row_index *index, int64_t *id);

#endif
