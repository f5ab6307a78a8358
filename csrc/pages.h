// Huge pages, which make address translation of large buffers faster.
#ifndef GOGGML_PAGES_H
#define GOGGML_PAGES_H

#include "guard.h"

// Requests huge pages for a buffer that has not been used yet, if it is in the memory of the
// process. This is a hint; small buffers are skipped.
void goggml_huge_buffer(ggml_backend_buffer_t buffer);
// Withdraws that request: each part of the buffer that is written takes little more memory than its size.
void goggml_sparse_buffer(ggml_backend_buffer_t buffer);
// Does the same for the buffers of a graph's intermediate results.
void goggml_huge_graph(struct ggml_cgraph *graph);

#endif
