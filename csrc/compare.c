//go:build ignore

#include "compare.h"

#include <stdlib.h>
#include <string.h>

static goggml_error goggml_try_copy(struct ggml_backend_graph_copy *copy, ggml_backend_t backend, struct ggml_cgraph *graph) {
	GUARDED_VOID(*copy = ggml_backend_graph_copy(backend, graph))
}

goggml_graph_copy goggml_copy_graph_to(ggml_backend_t backend, struct ggml_cgraph *graph) {
	goggml_graph_copy result = {0};
	goggml_arena *arena = goggml_arena_new();
	struct ggml_context **chunks = malloc(2 * sizeof *chunks);
	if (arena == NULL || chunks == NULL) {
		free(chunks);
		free(arena);
		return result;
	}
	struct ggml_backend_graph_copy copy = {0};
	result.error = goggml_try_copy(&copy, backend, graph);
	if (result.error != NULL || copy.buffer == NULL) {
		free(chunks);
		free(arena);
		return result;
	}
	chunks[0] = copy.ctx_allocated;
	chunks[1] = copy.ctx_unallocated;
	arena->chunks = chunks;
	arena->n_chunks = 2;
	result.graph = copy.graph;
	result.arena = arena;
	result.buffer = copy.buffer;
	return result;
}

extern bool goggmlCompare(uintptr_t id, int i, struct ggml_tensor *a, struct ggml_tensor *b, uintptr_t *calling);

static bool goggml_on_compare(int i, struct ggml_tensor *a, struct ggml_tensor *b, void *id) {
	goggml_guard_state outer = goggml_guard_suspend();
	bool more = goggmlCompare((uintptr_t)id, i, a, b, goggml_calling_slot());
	goggml_guard_resume(outer);
	return more;
}

static bool goggml_compare_all(const goggml_comparison *c, struct ggml_cgraph *graph) {
	return ggml_backend_compare_graph_backend(c->first, c->second, graph, goggml_on_compare, (void *)c->id,
		(const struct ggml_tensor *const *)c->nodes, c->n_nodes);
}

goggml_int goggml_compare(void *comparison, void *graph) {
	GUARDED(goggml_int, goggml_compare_all(comparison, graph))
}
