// The operands of a graph's nodes before and after a scheduler has put copies on other backends in their place.
#ifndef GOGGML_SCHED_SOURCES_H
#define GOGGML_SCHED_SOURCES_H

#include "guard.h"

typedef struct {
	struct ggml_tensor *node;
	int index;
	struct ggml_tensor *own, *copy;
} goggml_source;

typedef struct {
	goggml_source *list;
	int n;
} goggml_sources;

// The operands of a node.
typedef struct {
	struct ggml_tensor *node, *src[GGML_MAX_SRC];
} goggml_operands;

// The operands of all nodes; NULL when there is no memory.
goggml_operands *goggml_sources_save(struct ggml_cgraph *graph);
// Puts back what has changed since, and lists that. It frees saved, and what sources had before. false when there is
// no memory for the list.
bool goggml_sources_restore(goggml_sources *sources, struct ggml_cgraph *graph, goggml_operands *saved);
// Puts the copies or the own operands in place.
void goggml_sources_set(const goggml_sources *sources, bool copies);
void goggml_sources_free(goggml_sources *sources);

#endif
