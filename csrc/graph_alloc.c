//go:build ignore

#include "graph_alloc.h"
#include "pages.h"

goggml_ptr goggml_gallocr_new(ggml_backend_buffer_type_t *types, int n) {
	GUARDED(goggml_ptr, ggml_gallocr_new_n(types, n))
}

goggml_int goggml_gallocr_reserve(ggml_gallocr_t allocator, struct ggml_cgraph *graph) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_gallocr_reserve(allocator, graph))
}

goggml_int goggml_gallocr_reserve_n(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves) {
	goggml_memory_changed();
	GUARDED(goggml_int, ggml_gallocr_reserve_n(allocator, graph, nodes, leaves))
}

goggml_int goggml_gallocr_sizes(ggml_gallocr_t allocator, struct ggml_cgraph *graph, const int *nodes, const int *leaves, size_t *sizes) {
	GUARDED(goggml_int, (ggml_gallocr_reserve_n_size(allocator, graph, nodes, leaves, sizes), 1))
}

bool goggml_graph_allocated(bool done, struct ggml_cgraph *graph) {
	if (done) {
		goggml_huge_graph(graph);
	}
	return done;
}

goggml_int goggml_gallocr_alloc(ggml_gallocr_t allocator, struct ggml_cgraph *graph) {
	goggml_memory_changed();
	GUARDED(goggml_int, goggml_graph_allocated(ggml_gallocr_alloc_graph(allocator, graph), graph))
}
