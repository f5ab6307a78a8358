// Row indices: operands with which get_rows and similar ops select rows. ggml asserts that they are
// in range, on threads whose assertions cannot be caught.
#ifndef GOGGML_ROW_INDEX_H
#define GOGGML_ROW_INDEX_H

#include "guard.h"

typedef struct {
	struct ggml_tensor *node, *ids; // the op, and its indices
	int64_t rows;                   // number of rows to select from
} goggml_row_index;

// Gets the row indices of a node; returns false if it has none, or is not computed.
bool goggml_row_index_of(struct ggml_tensor *node, goggml_row_index *index);

// Lists the distinct row indices of a graph, up to room of them, and returns their number.
int goggml_graph_row_indices(struct ggml_cgraph *graph, goggml_row_index *list, int room);

// Finds an index out of range among those that the caller wrote. Indices that the graph computes
// are checked during the compute, see op_indices.go.
bool goggml_row_index_out_of_range(const goggml_row_index *index, int64_t *id);

#endif
