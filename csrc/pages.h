// Huge pages: the processor finds the addresses of large buffers faster in them.
#ifndef GOGGML_PAGES_H
#define GOGGML_PAGES_H

#include "guard.h"

// Asks the system for huge pages for a buffer that has not been used yet, if it is in the memory of the process. It is
// a hint; small memory is left alone.
void goggml_huge_buffer(ggml_backend_buffer_t buffer);
// The same for the buffers of the intermediate results of a graph.
void goggml_huge_graph(struct ggml_cgraph *graph);

#endif
