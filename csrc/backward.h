// Gradients: what the library's rules make, in layouts that the ops take.
#ifndef GOGGML_BACKWARD_H
#define GOGGML_BACKWARD_H

#include "arena.h"

// A copy of the graph, in graphs, extended by gradients, whose tensors go to
// tensors. leaves are those that no node uses.
goggml_ptr goggml_graph_backward(goggml_arena *tensors, goggml_arena *graphs, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);

#endif
