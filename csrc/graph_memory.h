// Graph memory: the tensors of a graph that an allocator allocates, and whether one memory plan
// suits two graphs.
#ifndef GOGGML_GRAPH_MEMORY_H
#define GOGGML_GRAPH_MEMORY_H

#include "arena.h"

typedef struct {
	struct ggml_tensor **tensors;
	int64_t n;
} goggml_graph_memory;

// Lists the unallocated tensors of the graph; leaves are leaves that no node uses. The list's
// tensors is NULL if memory is short.
goggml_graph_memory goggml_graph_memory_new(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);
// Reports whether one of the tensors lies in the arena.
bool goggml_graph_memory_in(const goggml_graph_memory *memory, const goggml_arena *arena);
// Makes the tensors unallocated, and frees the list.
void goggml_graph_memory_free(goggml_graph_memory *memory);

// Hashes all inputs of an allocator's plan: which nodes read which tensors, their sizes, and which
// are already allocated. Graphs with equal signatures can share a plan. Returns 0 if memory is
// short.
uint64_t goggml_graph_signature(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);

#endif
