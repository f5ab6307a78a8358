// Graph memory: the tensors of a graph that an allocator gives memory to, and whether one plan of memory suits two
// graphs.
#ifndef GOGGML_GRAPH_MEMORY_H
#define GOGGML_GRAPH_MEMORY_H

#include "arena.h"

typedef struct {
	struct ggml_tensor **tensors;
	int64_t n;
} goggml_graph_memory;

// Lists the tensors of the graph that have no memory yet; leaves are those that
// no node uses. The list's tensors is NULL when there is no room for it.
goggml_graph_memory goggml_graph_memory_new(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);
// Reports whether one of the tensors lies in the arena.
bool goggml_graph_memory_in(const goggml_graph_memory *memory, const goggml_arena *arena);
// Makes the tensors unallocated again, and frees the list.
void goggml_graph_memory_free(goggml_graph_memory *memory);

// A hash of what an allocator's plan depends on: which nodes read which tensors, their sizes, and what has memory
// already. Graphs of one signature can share a plan. It is 0 when there is no room to compute it.
uint64_t goggml_graph_signature(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);

#endif
