// The backward pass: which ops have one, and graphs extended by gradients according to ggml's
// rules, in layouts that the ops take.
#ifndef GOGGML_GRAPH_BACKWARD_H
#define GOGGML_GRAPH_BACKWARD_H

#include "arena.h"

// The flags of tensors that a backward pass needs.
typedef struct {
	struct ggml_tensor *loss; // NULL if none is marked as the loss
	bool params;              // whether a tensor is marked as a parameter
} goggml_graph_flags;

goggml_graph_flags goggml_graph_find_flags(struct ggml_cgraph *graph);
// Reports whether ggml has no backward for the op of a node.
bool goggml_lacks_backward(const struct ggml_tensor *node);
// Reports whether ggml gives a node a gradient because the source has one.
bool goggml_propagates_requires_grad(const struct ggml_tensor *node, int source);
// Reports whether the backward rule of a node makes a gradient of the source.
bool goggml_has_grad_for(const struct ggml_tensor *node, int source);

// Returns a copy of the graph, in graphs, extended by gradients, whose tensors go to tensors.
// leaves are leaves that no node uses.
goggml_ptr goggml_graph_backward(goggml_arena *tensors, goggml_arena *graphs, struct ggml_cgraph *graph, struct ggml_tensor **leaves, int n_leaves);

// Sets the gradient of the loss to 1, other accumulated gradients to 0.
goggml_error goggml_graph_reset(struct ggml_cgraph *graph);
// Like goggml_graph_reset, and sets the moments of optimizers to 0.
goggml_error goggml_graph_reset_all(struct ggml_cgraph *graph);

#endif
