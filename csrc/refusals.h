// Ops that the device of a backend says it computes (ggml_backend_dev_supports_op), and computes wrongly, is lost at, or
// ends the process on.
#ifndef GOGGML_REFUSALS_H
#define GOGGML_REFUSALS_H

#include "guard.h"

// Why the device is not asked for the op of a node, and what to do; NULL where it can be.
const char *goggml_refusal(ggml_backend_dev_t device, const struct ggml_tensor *node);

// What the device says, but for those.
bool goggml_supports(ggml_backend_dev_t device, const struct ggml_tensor *node);

// The next node of the graph from index *i on for which one of the devices is not asked, and the index after it; NULL
// when there is none.
struct ggml_tensor *goggml_graph_next_refused(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n, int *i);

// For tests: pretends that devices other than the CPU's belong to the backend of this name; NULL ends it. The caller
// keeps the memory.
void goggml_refuse_as(const char *backend);

// For tests: ops that devices other than the CPU's lack, each with a space before and behind it; NULL for none. The
// memory stays the caller's.
void goggml_lack(const char *ops);

#endif
