// Building graphs: new and larger ones, their nodes, and what they contain.
#ifndef GOGGML_GRAPH_BUILD_H
#define GOGGML_GRAPH_BUILD_H

#include "arena.h"

// A new graph with room for that many nodes and as many leaves; aborts without
// memory, and so must be called inside a guard.
struct ggml_cgraph *goggml_new_graph(goggml_arena *arena, size_t size, bool grads);
goggml_ptr goggml_graph_new(goggml_arena *arena, size_t size, bool grads);
// A graph of another size with the nodes of an existing one.
goggml_ptr goggml_graph_grow(goggml_arena *arena, struct ggml_cgraph *graph, size_t size, bool grads);
// A graph of the same nodes, with all leaves that these have.
goggml_ptr goggml_graph_rebuild(goggml_arena *arena, struct ggml_cgraph *graph);
// Adds tensors, each with what it depends on; without compute they are only put
// in order. ggml does so by recursion, which overflows the stack where a chain of
// new tensors is long: see graph_order.go.
goggml_error goggml_graph_expand(struct ggml_cgraph *graph, struct ggml_tensor **tensors, size_t n, bool compute);

// Counts the tensors of the graph, leaves included, up to a number above the
// limit.
size_t goggml_graph_count_tensors(struct ggml_cgraph *graph, size_t limit);
// Counts the nodes, and the leaves as often as they are used.
size_t goggml_graph_count_uses(struct ggml_cgraph *graph);

// Reports whether the tensor is a node of the graph, an operand of one, or one of the leaves.
bool goggml_graph_contains(struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves, const struct ggml_tensor *tensor);

#endif
