//go:build ignore

#include "sched_sources.h"

#include <stdlib.h>
#include <string.h>

goggml_operands *goggml_sources_save(struct ggml_cgraph *graph) {
	int n = ggml_graph_n_nodes(graph);
	goggml_operands *saved = malloc((size_t)(n + 1) * sizeof *saved);
	for (int i = 0; saved != NULL && i < n; i++) {
		saved[i].node = ggml_graph_node(graph, i);
		memcpy(saved[i].src, saved[i].node->src, sizeof saved[i].src);
	}
	return saved;
}

bool goggml_sources_restore(goggml_sources *sources, struct ggml_cgraph *graph, goggml_operands *saved) {
	goggml_sources_free(sources);
	bool complete = true;
	for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
		struct ggml_tensor *node = saved[i].node; // may no longer be the graph's i-th: a backend may reorder nodes
		for (int j = 0; j < GGML_MAX_SRC; j++) {
			struct ggml_tensor *own = saved[i].src[j];
			if (node->src[j] == own) {
				continue;
			}
			if ((sources->n & (sources->n - 1)) == 0) { // full
				goggml_source *grown = realloc(sources->list, (sources->n ? 2 * (size_t)sources->n : 1) * sizeof *grown);
				complete = complete && grown != NULL;
				sources->list = grown != NULL ? grown : sources->list;
			}
			if (complete) {
				sources->list[sources->n++] = (goggml_source){node, j, own, node->src[j]};
			}
			node->src[j] = own;
		}
	}
	free(saved);
	return complete;
}

void goggml_sources_set(const goggml_sources *sources, bool copies) {
	for (int i = 0; i < sources->n; i++) {
		goggml_source s = sources->list[i];
		s.node->src[s.index] = copies ? s.copy : s.own;
	}
}

void goggml_sources_free(goggml_sources *sources) {
	free(sources->list);
	sources->list = NULL;
	sources->n = 0;
}
