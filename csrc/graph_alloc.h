// Allocators of graphs, guarded.
#ifndef GOGGML_GRAPH_ALLOC_H
#define GOGGML_GRAPH_ALLOC_H

#include "arena.h"

goggml_ptr goggml_gallocr_new(ggml_backend_buffer_type_t *types, int n);
goggml_int goggml_gallocr_reserve(ggml_gallocr_t allocator, struct ggml_cgraph *graph);
goggml_int goggml_gallocr_reserve_n(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves);
// The value is 1.
goggml_int goggml_gallocr_sizes(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves, size_t *sizes);
goggml_int goggml_gallocr_alloc(ggml_gallocr_t allocator, struct ggml_cgraph *graph);

// Requests huge pages for the memory of a newly allocated graph, and returns done.
bool goggml_graph_allocated(bool done, struct ggml_cgraph *graph);

#endif
