// Building graphs: new and larger graphs, their nodes, and their contents.
#ifndef GOGGML_GRAPH_BUILD_H
#define GOGGML_GRAPH_BUILD_H

#include "arena.h"

// Returns a new graph with room for size nodes and as many leaves. Aborts if memory is short, so it
// must be called inside a guard.
struct ggml_cgraph *goggml_new_graph(goggml_arena *arena, size_t size, bool grads);
goggml_ptr goggml_graph_new(goggml_arena *arena, size_t size, bool grads);
// Returns a graph of another size with the nodes of an existing one.
goggml_ptr goggml_graph_grow(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads);
// Returns a graph of the same nodes, with all their leaves.
goggml_ptr goggml_graph_rebuild(goggml_arena *arena, struct ggml_cgraph *graph);
// Adds tensors with their dependencies; without compute it only fixes their order. ggml does so by
// recursion, which overflows the stack for a long chain of new tensors: see graph_order.go.
goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor **tensors, size_t n, bool compute);

// Counts the tensors of the graph, leaves included, and stops above the limit.
size_t goggml_graph_count_tensors(struct ggml_cgraph *graph, size_t limit);
// Counts the nodes, and each leaf once per use.
size_t goggml_graph_count_uses(struct ggml_cgraph *graph);

// Reports whether the tensor is a node of the graph, an operand of one, or one of the leaves.
bool goggml_graph_contains(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, const struct ggml_tensor *tensor);

#endif
