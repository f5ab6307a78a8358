// Single tensors: their op, flags and memory.
#ifndef GOGGML_TENSOR_H
#define GOGGML_TENSOR_H

#include "arena.h"

// Returns the tensor whose values a view shows, through any permutations and reshapes.
const struct ggml_tensor *goggml_origin(const struct ggml_tensor *tensor);
// Reports whether the tensor is a leaf or a view: nothing is computed for it.
bool goggml_is_layout_op(const struct ggml_tensor *t);
// Reports whether the op overwrites an operand.
bool goggml_is_inplace(const struct ggml_tensor *node);

// Sets a flag of the tensor, and of its view source if the flag applies to it.
void goggml_set_flag(struct ggml_tensor *tensor, int32_t flag);

// Reports whether the tensor is allocated; for a view, whether its origin still has the same
// memory.
bool goggml_has_memory(const struct ggml_tensor *tensor);
// Makes a view unallocated if its origin has other memory now.
void goggml_drop_stale(struct ggml_tensor *tensor);

#endif
