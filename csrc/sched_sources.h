// The operands of a graph's nodes before and after a scheduler has replaced them by copies on other
// backends.
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

// Returns the operands of all nodes; NULL if memory is short.
goggml_operands *goggml_sources_save(struct ggml_cgraph *graph);
// Restores the operands changed since saving, and lists the changes. It frees saved, and the old
// contents of sources. Returns false if memory for the list is short.
bool goggml_sources_restore(goggml_sources *sources, struct ggml_cgraph *graph, goggml_operands *saved);
// Sets the copies or the original operands.
void goggml_sources_set(const goggml_sources *sources, bool copies);
void goggml_sources_free(goggml_sources *sources);

#endif
