// Copies of graphs on other backends, and comparisons of backends.
#ifndef GOGGML_COMPARE_H
#define GOGGML_COMPARE_H

#include "arena.h"

typedef struct {
	struct ggml_cgraph *graph; // NULL if memory is short
	goggml_arena *arena;       // holds the graph and its tensors
	ggml_backend_buffer_t buffer;
	char *error;
} goggml_graph_copy;

goggml_graph_copy goggml_copy_graph_to(ggml_backend_t backend, struct ggml_cgraph *graph);

typedef struct {
	ggml_backend_t first, second;
	uintptr_t id; // number of the callback
	struct ggml_tensor **nodes;
	int n_nodes;
} goggml_comparison;

// The value is 0 if memory is short.
goggml_int goggml_compare(void *comparison, void *graph);

#endif
