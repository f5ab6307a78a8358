// Ops whose function is written in Go.
#ifndef GOGGML_CUSTOM_H
#define GOGGML_CUSTOM_H

#include "ops.h"

// id is the number of the Go function. Only custom takes more than three operands.
goggml_tensor goggml_op_map_custom(goggml_arena *arena, struct ggml_tensor **operands, int n, bool inplace, int tasks, uintptr_t id);
goggml_tensor goggml_op_custom(goggml_arena *arena, goggml_type type, const int64_t *ne, struct ggml_tensor **operands, int n, int tasks, uintptr_t id);
// The op overwrites its first operand.
goggml_tensor goggml_op_custom_inplace(goggml_arena *arena, struct ggml_tensor **operands, int n, int tasks, uintptr_t id);

// Reports whether the function of a custom op calls a Go function.
bool goggml_is_go_op(ggml_custom_op_t function);
// Reports whether a function of this process computes the op.
bool goggml_is_custom(const struct ggml_tensor *node);
// Reports whether the program can read the tensor's memory.
bool goggml_on_host(const struct ggml_tensor *tensor);
// Returns the first such node of the graph from index *i on, and sets *i to the next index; NULL if
// there is none.
struct ggml_tensor *goggml_graph_next_custom(struct ggml_cgraph *graph, int *i);

#endif
