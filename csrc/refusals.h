// Ops that a backend's device claims to support (ggml_backend_dev_supports_op), but computes
// wrongly, or whose computation loses the device or ends the process.
#ifndef GOGGML_REFUSALS_H
#define GOGGML_REFUSALS_H

#include "guard.h"

// Returns why the device is not asked about the op of a node, and the remedy; NULL if it can be
// asked.
const char *goggml_refusal(ggml_backend_dev_t device, const struct ggml_tensor *node);

// Returns the device's answer, except for such ops.
bool goggml_supports(ggml_backend_dev_t device, const struct ggml_tensor *node);

// Returns the next node of the graph from index *i on with a refusal for one of the devices, and
// sets *i to the next index; NULL if there is none.
struct ggml_tensor *goggml_graph_next_refused(struct ggml_cgraph *graph, ggml_backend_dev_t *devices, int n, int *i);

// For tests: pretends that devices other than the CPU's belong to the backend of this name; NULL
// ends it. The caller keeps the string valid.
void goggml_refuse_as(const char *backend);

// For tests: names of ops that devices other than the CPU's lack, each with a space before and
// after it; NULL for none. The caller keeps the string valid.
void goggml_lack(const char *ops);

#endif
